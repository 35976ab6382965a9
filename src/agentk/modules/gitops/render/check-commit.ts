import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import type { RoundBudget } from '../manifests/round-budget.ts'
import type { SourceOptions } from '../source-options.ts'
import { FileSet, pathProblem } from './file-set.ts'
import {
  type ClusterVersion,
  helmArguments,
  helmProblems,
  helmReplacements,
  hooksIn,
  mayHaveHooks,
  placeInTemplates,
} from './helm.ts'
import { kustomizeProblems } from './hermetic.ts'
import { lineAt, renderedName } from './program-output.ts'

/** A commit that a program is to render, before it does. It can be sent to a thread. */
export interface CheckJob {
  readonly files: readonly RepositoryFile[]
  /** one of them is there */
  readonly options: Pick<SourceOptions, 'kustomize' | 'helm' | 'defaultNamespace'>
  readonly cluster: ClusterVersion
  /** what may be read of the commit */
  readonly budget: RoundBudget
}

export interface Checked {
  /** for which nothing is rendered */
  readonly problems: readonly ManifestProblem[]
  /** what users are to know of it */
  readonly notes: readonly string[]
  /** what the program reads in place of files of the commit */
  readonly replacements: readonly RepositoryFile[]
  /** the first that is there is taken */
  readonly programs: readonly { readonly name: string; readonly args: readonly string[] }[]
  /** of helm, where the chart may have hooks: prints them as well */
  readonly hookArgs?: readonly string[]
  /** what is left of it */
  readonly budget: RoundBudget
}

/** What a program would take from elsewhere than the commit, and how it is to be called. */
export function checkCommit({ files, options, cluster, budget }: CheckJob): Checked {
  const { helm, defaultNamespace } = options
  const unsafe = pathProblem(files)
  if (unsafe) return { problems: [unsafe], notes: [], replacements: [], programs: [], budget }
  const set = new FileSet(files)
  if (helm) {
    const problems = helmProblems(set, helm, budget)
    const replacements = problems.length > 0 ? [] : helmReplacements(set, helm)
    const programs = [{ name: 'helm', args: helmArguments(set, helm, defaultNamespace, cluster) }]
    const hookArgs = mayHaveHooks(set, helm) && helmArguments(set, helm, defaultNamespace, cluster, true)
    return { problems, notes: [], replacements, programs, ...(hookArgs && { hookArgs }), budget }
  }
  const folder = kustomizedFolder(options)
  const programs = [
    { name: 'kustomize', args: ['build', `./${folder}`] },
    { name: 'kubectl', args: ['kustomize', `./${folder}`] },
  ]
  return { problems: kustomizeProblems(set, folder, budget), notes: [], replacements: [], programs, budget }
}

/** From the root of the repository. */
export function kustomizedFolder({ kustomize }: Pick<SourceOptions, 'kustomize'>): string {
  return new FileSet([]).resolve('.', kustomize?.path ?? '') ?? ''
}

/** Which hooks helm has printed: it can be sent to a thread. */
export interface HooksJob {
  readonly output: Uint8Array
  readonly options: Pick<SourceOptions, 'helm' | 'defaultNamespace'>
  /** what is left of the commit's */
  readonly budget: RoundBudget
}

/** By name. */
export function hooksOf({ output, options: { helm, defaultNamespace }, budget }: HooksJob): readonly string[] {
  return helm ? hooksIn(output, helm, defaultNamespace, budget) : []
}

/** Where in what a program has printed: it can be sent to a thread. */
export interface PlaceJob {
  readonly output: Uint8Array
  readonly offset: number
  readonly options: CheckJob['options']
}

/** File, as problems of what was rendered name it, and line. */
export function placeOf({ output, offset, options }: PlaceJob): { file: string; line: number } {
  if (options.helm) return placeInTemplates(output, offset, options.helm)
  return { file: renderedName(kustomizedFolder(options)), line: lineAt(output, 0, offset) }
}
