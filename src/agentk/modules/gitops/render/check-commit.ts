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

/** Commit to check before a program renders it. It can be sent to a thread. */
export interface CheckJob {
  readonly files: readonly RepositoryFile[]
  /** `kustomize` or `helm` is set */
  readonly options: Pick<SourceOptions, 'kustomize' | 'helm' | 'defaultNamespace'>
  readonly cluster: ClusterVersion
  /** budget for reading the commit */
  readonly budget: RoundBudget
}

export interface Checked {
  /** problems for which nothing is rendered */
  readonly problems: readonly ManifestProblem[]
  /** notes for users */
  readonly notes: readonly string[]
  /** files that the program reads in place of the commit's */
  readonly replacements: readonly RepositoryFile[]
  /** programs in the order of preference: the first that exists is used */
  readonly programs: readonly { readonly name: string; readonly args: readonly string[] }[]
  /** arguments with which helm prints hooks too; absent: the chart has none */
  readonly hookArgs?: readonly string[]
  /** budget that the check has left */
  readonly budget: RoundBudget
}

/** Checks what a program would take from elsewhere than the commit, and returns its arguments. */
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

/** Returns the path from the root of the repository. */
export function kustomizedFolder({ kustomize }: Pick<SourceOptions, 'kustomize'>): string {
  return new FileSet([]).resolve('.', kustomize?.path ?? '') ?? ''
}

/** Output of helm whose hooks are to be listed. It can be sent to a thread. */
export interface HooksJob {
  readonly output: Uint8Array
  readonly options: Pick<SourceOptions, 'helm' | 'defaultNamespace'>
  /** budget that is left for the commit */
  readonly budget: RoundBudget
}

/** Returns the names of the hooks. */
export function hooksOf({ output, options: { helm, defaultNamespace }, budget }: HooksJob): readonly string[] {
  return helm ? hooksIn(output, helm, defaultNamespace, budget) : []
}

/** Offset in a program's output, for its line. It can be sent to a thread. */
export interface PlaceJob {
  readonly output: Uint8Array
  readonly offset: number
  readonly options: CheckJob['options']
}

/** Returns the line, and the file by the name that problems of rendered output have. */
export function placeOf({ output, offset, options }: PlaceJob): { file: string; line: number } {
  if (options.helm) return placeInTemplates(output, offset, options.helm)
  return { file: renderedName(kustomizedFolder(options)), line: lineAt(output, 0, offset) }
}
