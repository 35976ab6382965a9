import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Clock } from '../../../../lib/clock.ts'
import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import type { SourceOptions } from '../source-options.ts'
import { FileSet, unsafePath } from './file-set.ts'
import {
  type ClusterVersion,
  failedTemplate,
  helmArguments,
  helmNotes,
  helmProblems,
  helmReplacements,
  templateFiles,
} from './helm.ts'
import { kustomizeProblems } from './hermetic.ts'
import { type RendererOptions, RendererProcesses, RenderFailure } from './renderer-process.ts'

export interface Rendered {
  /** of manifests; `… (rendered)`: their lines are of what a program made of that */
  readonly files: readonly RepositoryFile[]
  readonly problems: ManifestProblem[]
  /** what users are to know of it */
  readonly notes: string[]
}

/** How a source is rendered. */
interface Plan {
  /** what the configuration names: problems are of it */
  readonly file: string
  readonly problems: ManifestProblem[]
  readonly notes: string[]
  /** what the program reads in place of files of the commit */
  readonly replacements: readonly RepositoryFile[]
  /** the first that is there is taken */
  readonly programs: readonly { readonly name: string; readonly args: readonly string[] }[]
  files(output: Buffer): RepositoryFile[]
  /** where a failure lies, by what the program said */
  place(said: string): { file: string; line: number } | undefined
}

/**
 * Makes manifests of a commit's files: as they are, by kustomize or by helm. A commit is the whole input: what a
 * program would take from elsewhere is refused before it runs. It runs twice, and what differs refuses the commit.
 */
export class Renderer {
  readonly #processes: RendererProcesses
  readonly #folder: string

  constructor(options: RendererOptions, clock?: Clock) {
    this.#processes = new RendererProcesses(options, clock)
    this.#folder = options.folder ?? tmpdir()
  }

  /** @throws the signal's reason; an error that may pass: of the file system, of time, of programs that are not there */
  async render(
    files: readonly RepositoryFile[],
    options: Pick<SourceOptions, 'kustomize' | 'helm' | 'defaultNamespace'>,
    cluster: ClusterVersion,
    signal: AbortSignal,
  ): Promise<Rendered> {
    const unsafe = unsafePath(files)
    if (unsafe !== undefined) return refused({ file: unsafe, line: 0, text: 'the path is not one of a repository' })
    const plan = planOf(new FileSet(files), options, cluster)
    if (!plan) return { files, problems: [], notes: [] }
    if (plan.problems.length > 0) return { files: [], problems: plan.problems, notes: plan.notes }
    const programs = plan.programs.map(({ name, args }) => ({ program: this.#processes.find(name), args }))
    const found = programs.find(({ program }) => program !== undefined)
    if (found?.program === undefined) {
      const names = plan.programs.map(({ name }) => name).join(' or ')
      throw new Error(`${plan.file}: it needs the program ${names}, which the PATH of agentk lacks`)
    }
    const run = { program: found.program, args: found.args }
    return this.#processes.inTurn(() => this.#run(plan, run, files, signal), signal)
  }

  async #run(
    plan: Plan,
    { program, args }: { program: string; args: readonly string[] },
    files: readonly RepositoryFile[],
    signal: AbortSignal,
  ): Promise<Rendered> {
    const base = await mkdtemp(join(this.#folder, 'agentk-render-'))
    try {
      const folder = join(base, 'files')
      await writeAll([...files, ...plan.replacements], folder)
      const run = async (name: string) => {
        const home = join(base, name)
        await mkdir(home)
        return this.#processes.run({ program, args, folder, home }, signal)
      }
      const one = await run('one')
      const two = await run('two')
      const rendered = plan.files(one)
      const differing = one.equals(two) ? undefined : firstDifference(rendered, plan.files(two))
      if (differing) return refused({ ...differing, text: 'it renders differently each time, as random values do' })
      const kept = await this.#processes.networkKept()
      const notes = kept === undefined ? [] : [`the program that renders keeps the network: ${kept}`]
      return { files: rendered, problems: [], notes: [...plan.notes, ...notes] }
    } catch (error) {
      if (!(error instanceof RenderFailure)) throw error
      const text = firstParagraph(error.message.replaceAll(`${join(base, 'files')}/`, ''))
      return refused({ file: plan.file, line: 0, ...plan.place(text), text })
    } finally {
      await rm(base, { recursive: true, force: true })
    }
  }
}

const maxFailureLength = 1000

/** What programs say below it is of their own inside. */
function firstParagraph(text: string): string {
  return text.split('\n\n', 1).join().slice(0, maxFailureLength)
}

function refused(problem: ManifestProblem): Rendered {
  return { files: [], problems: [problem], notes: [] }
}

function planOf(
  set: FileSet,
  { kustomize, helm, defaultNamespace }: Pick<SourceOptions, 'kustomize' | 'helm' | 'defaultNamespace'>,
  cluster: ClusterVersion,
): Plan | undefined {
  if (helm) {
    const problems = helmProblems(set, helm)
    return {
      file: helm.chart,
      problems,
      notes: helmNotes(set, helm),
      replacements: problems.length > 0 ? [] : helmReplacements(set, helm),
      programs: [{ name: 'helm', args: helmArguments(set, helm, defaultNamespace, cluster) }],
      files: (output) => templateFiles(output, helm),
      place: (said) => failedTemplate(said, set, helm),
    }
  }
  if (!kustomize) return undefined
  const folder = set.resolve('.', kustomize.path) ?? ''
  return {
    file: folder,
    problems: kustomizeProblems(set, folder),
    notes: [],
    replacements: [],
    programs: [
      { name: 'kustomize', args: ['build', `./${folder}`] },
      { name: 'kubectl', args: ['kustomize', `./${folder}`] },
    ],
    files: (output) => [{ path: `${folder} (rendered)`, data: output }],
    place: () => undefined,
  }
}

async function writeAll(files: readonly RepositoryFile[], folder: string): Promise<void> {
  await mkdir(folder)
  for (const parent of new Set(files.map(({ path }) => dirname(path))))
    await mkdir(join(folder, parent), { recursive: true })
  for (const { path, data } of files) await writeFile(join(folder, path), data)
}

function firstDifference(
  one: readonly RepositoryFile[],
  two: readonly RepositoryFile[],
): { file: string; line: number } {
  const others = new Map(two.map(({ path, data }) => [path, Buffer.from(data).toString().split('\n')]))
  for (const { path, data } of one) {
    const [lines, other = []] = [Buffer.from(data).toString().split('\n'), others.get(path)]
    const at = lines.findIndex((line, index) => line !== other[index])
    if (at >= 0 || lines.length !== other.length) return { file: path, line: (at < 0 ? lines.length : at) + 1 }
  }
  return { file: two.find(({ path }) => !one.some((file) => file.path === path))?.path ?? '', line: 0 }
}
