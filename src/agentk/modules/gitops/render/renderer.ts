import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Clock } from '../../../../lib/clock.ts'
import { podShares } from '../../../../lib/pod-shares.ts'
import { Turns } from '../../../../lib/turns.ts'
import { maxSources } from '../../../../proto/gitops/limits.ts'
import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import { type RoundBudget, roundBudget } from '../manifests/round-budget.ts'
import type { SourceOptions } from '../source-options.ts'
import {
  type Checked,
  type CheckJob,
  checkCommit,
  type HooksJob,
  hooksOf,
  kustomizedFolder,
  type PlaceJob,
  placeOf,
} from './check-commit.ts'
import { failureText } from './failure-text.ts'
import { unsafePath } from './file-set.ts'
import { type ClusterVersion, failedTemplate } from './helm.ts'
import { podMemory } from './pod-memory.ts'
import {
  ComparedOutput,
  KeptOutput,
  OutputDiffers,
  type OutputReader,
  OutputTooLarge,
  renderedName,
} from './program-output.ts'
import { type RendererOptions, RendererProcesses, RenderFailure } from './renderer-process.ts'

/** Jobs on a commit that take time, beside the main thread. */
export interface CommitJobs {
  check(project: string, job: Omit<CheckJob, 'budget'>, signal: AbortSignal): Promise<Checked>
  place(project: string, job: PlaceJob, signal: AbortSignal): Promise<{ file: string; line: number }>
  hooks(project: string, job: HooksJob, signal: AbortSignal): Promise<readonly string[]>
}

/** Input of both runs of a program. */
interface RunInput {
  readonly files: readonly RepositoryFile[]
  /** files that the program reads in place of the commit's */
  readonly replacements: readonly RepositoryFile[]
  readonly project: string
  readonly output: KeptOutput
  /** one more run, which prints hooks too */
  readonly hooked?: { readonly args: readonly string[]; readonly output: KeptOutput }
}

type RenderOptions = CheckJob['options'] & Partial<Pick<SourceOptions, 'project'>>

export interface Rendered {
  /** files of manifests; `… (rendered)`: their lines are those of a program's output */
  readonly files: readonly RepositoryFile[]
  readonly problems: readonly ManifestProblem[]
  /** notes for users */
  readonly notes: readonly string[]
  /** hooks of the chart, by name: agentk does not run them */
  readonly hooks?: readonly string[]
  /** set if the files are helm's output for this chart: templates, one after another */
  readonly chart?: NonNullable<SourceOptions['helm']>
  /** budget that the checks have left; absent: there were no checks */
  readonly budget?: RoundBudget
}

/**
 * Makes manifests of a commit's files: as they are, by kustomize or by helm. The commit is the whole input: before a
 * program runs, agentk refuses what the program would take from elsewhere. The program runs twice, and a different
 * output refuses the commit.
 */
export class Renderer {
  readonly #processes: RendererProcesses
  readonly #folder: string
  readonly #jobs: CommitJobs
  readonly #turns: Pick<Turns<string>, 'take'>
  readonly #maxOutputBytes: number

  constructor(
    options: RendererOptions,
    components: {
      /** ManifestsThread; default: in this thread */
      readonly jobs?: CommitJobs
      /** turns by project: one turn is for both runs of a program; default: by the pod's memory */
      readonly turns?: Pick<Turns<string>, 'take'>
      readonly clock?: Clock
    } = {},
  ) {
    const memory = podMemory(options.podBytes ?? podShares().restBytes)
    const { jobs = jobsHere, turns = commitTurns(memory.turns), clock } = components
    this.#processes = new RendererProcesses({ maxMemoryKib: memory.programKib, ...options }, clock)
    this.#folder = options.folder ?? tmpdir()
    this.#jobs = jobs
    this.#turns = turns
    this.#maxOutputBytes = options.maxOutputBytes ?? memory.outputBytes
  }

  /** @throws the signal's reason; an error that may pass: of the file system, of time, of a missing program */
  async render(
    files: readonly RepositoryFile[],
    options: RenderOptions,
    cluster: ClusterVersion,
    signal: AbortSignal,
  ): Promise<Rendered> {
    const { kustomize, helm, defaultNamespace, project = '' } = options
    if (!kustomize && !helm) {
      const problem = unsafePath(files)
      return problem ? refused(problem) : { files, problems: [], notes: [] }
    }
    const chosen = { defaultNamespace, ...(helm ? { helm } : kustomize && { kustomize }) }
    const { problems, notes, programs, replacements, hookArgs, budget } = await this.#jobs.check(
      project,
      { files, options: chosen, cluster },
      signal,
    )
    if (problems.length > 0) return { files: [], problems, notes }
    const place = helm ? helm.chart : kustomizedFolder(options)
    const found = programs
      .map(({ name, args }) => ({ program: this.#processes.find(name), args }))
      .find(({ program }) => program !== undefined)
    if (found?.program === undefined) {
      const names = programs.map(({ name }) => name).join(' or ')
      throw new Error(`${place}: it needs the program ${names}, which the PATH of agentk lacks`)
    }
    const output = new KeptOutput(this.#maxOutputBytes)
    const hooked = hookArgs && { args: hookArgs, output: new KeptOutput(this.#maxOutputBytes) }
    const input = { files, replacements, project, output, ...(hooked && { hooked }) }
    try {
      await this.#run({ program: found.program, args: found.args }, input, signal)
    } catch (error) {
      if (error instanceof OutputDiffers) {
        const { message: text, offset } = error
        const job = { output: output.bytes, offset, options: chosen }
        return refused({ ...(await this.#jobs.place(project, job, signal)), text })
      }
      if (!(error instanceof RenderFailure || error instanceof OutputTooLarge)) throw error
      const paths = new Set(files.map(({ path }) => path))
      const failed = helm && failedTemplate(error.message, { isFile: (path) => paths.has(path) }, helm)
      const isQuoting = error instanceof RenderFailure && error.isOfProgram
      const text = isQuoting
        ? failureText(error.message, { program: found.program, args: found.args }, files)
        : error.message
      return refused({ file: place, line: 0, ...failed, text })
    }
    const rendered = [{ path: renderedName(place), data: output.bytes }]
    const kept = await this.#processes.networkKept()
    const all = kept === undefined ? notes : [...notes, `the program that renders keeps the network: ${kept}`]
    const job = hooked && { output: hooked.output.bytes, options: chosen, budget: { ...budget } }
    const hooks = job ? await this.#jobs.hooks(project, job, signal) : []
    const hookNotes = hooks.map((hook) => `${hook} is a hook of the chart: it is not run`)
    return { files: rendered, problems: [], notes: [...all, ...hookNotes], hooks, ...(helm && { chart: helm }), budget }
  }

  /** Runs the program twice, in one turn. @throws OutputDiffers, OutputTooLarge, RenderFailure */
  async #run(
    { program, args }: { program: string; args: readonly string[] },
    { files, replacements, project, output, hooked }: RunInput,
    signal: AbortSignal,
  ): Promise<void> {
    const endTurn = await this.#turns.take(project, signal)
    try {
      const base = await unnamed(mkdtemp(join(this.#folder, 'agentk-render-')))
      const folder = join(base, 'files')
      try {
        await unnamed(writeAll([...files, ...replacements], folder))
        const run = async (name: string, args: readonly string[], reader: OutputReader) => {
          const home = join(base, name)
          await unnamed(mkdir(home))
          await this.#processes.run({ program, args, folder, home }, reader, signal)
        }
        await run('one', args, output)
        const again = new ComparedOutput(output.bytes)
        await run('two', args, again)
        again.end()
        if (hooked) await run('hooks', hooked.args, hooked.output)
      } catch (error) {
        if (!(error instanceof RenderFailure)) throw error
        throw new RenderFailure(firstParagraph(error.message.replaceAll(`${folder}/`, '')), error.isOfProgram)
      } finally {
        await rm(base, { recursive: true, force: true })
      }
    } finally {
      endTurn()
    }
  }
}

const jobsHere: CommitJobs = {
  check: async (_, job) => checkCommit({ ...job, budget: roundBudget() }),
  place: async (_, job) => placeOf(job),
  hooks: async (_, job) => hooksOf(job),
}

/** Each source has one commit at work; sources that have left the configuration may still be there. */
const maxWaiting = 2 * maxSources

/** Creates the turns for work on commits, by project: of the thread of manifests, and of programs. */
export function commitTurns(maxRunning: number): Turns<string> {
  const tooMany = () => new Error(`more than ${maxWaiting} commits wait for their turn`)
  return new Turns({ maxRunning, maxWaiting, tooMany })
}

/** Limit of a program's text about its failure; a longer one is cut. */
const maxFailureLength = 1000

/** Returns the first paragraph: below it, programs report on their own internals. */
function firstParagraph(text: string): string {
  return text.split('\n\n', 1).join().slice(0, maxFailureLength)
}

function refused(problem: ManifestProblem): Rendered {
  return { files: [], problems: [problem], notes: [] }
}

async function writeAll(files: readonly RepositoryFile[], folder: string): Promise<void> {
  await mkdir(folder)
  for (const parent of new Set(files.map(({ path }) => dirname(path))))
    await mkdir(join(folder, parent), { recursive: true })
  for (const { path, data } of files) await writeFile(join(folder, path), data)
}

/** @throws Error without agentk's folders, which the error of the file system names */
async function unnamed<T>(written: Promise<T>): Promise<T> {
  try {
    return await written
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new Error(`agentk could not write the files for the program: ${code}`, { cause: error })
  }
}
