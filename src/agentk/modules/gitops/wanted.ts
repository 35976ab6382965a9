import { type WaveGraph, waveGraph } from './apply/wave-graph.ts'
import type { ClusterKinds } from './cluster-kinds.ts'
import type { Manifest, ManifestProblem, RepositoryFile } from './manifests/manifest.ts'
import type { ReadJob } from './manifests/manifests-thread.ts'
import type { ManifestsAnswer } from './manifests/read-manifests.ts'
import type { Rendered } from './render/renderer.ts'
import type { SharedKinds } from './shared-kinds.ts'
import type { SourceOptions } from './source-options.ts'

export interface WantedComponents {
  readonly kinds: SharedKinds
  /** manifests of what the repository holds */
  readonly render: (
    files: readonly RepositoryFile[],
    kinds: ClusterKinds,
    signal: AbortSignal,
  ) => Promise<Pick<Rendered, 'files' | 'problems' | 'chart' | 'budget'> & Partial<Pick<Rendered, 'notes'>>>
  /** what these want */
  readonly read: (job: ReadJob, signal: AbortSignal) => Promise<ManifestsAnswer>
}

/** What a commit wants of the cluster, in order. */
export interface Wanted {
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  readonly kinds: ClusterKinds
  /** what users are to know of how it was rendered */
  readonly notes?: readonly string[]
}

/** @returns the problems for which the commit is refused. @throws as `render` and `read`, and why kinds cannot be read */
export async function readWanted(
  { kinds: shared, render, read }: WantedComponents,
  files: readonly RepositoryFile[],
  options: SourceOptions,
  signal: AbortSignal,
): Promise<Wanted | { problems: readonly ManifestProblem[] }> {
  const kinds = await shared.current(signal)
  const { problems: unrendered, files: rendered, notes = [], chart, budget } = await render(files, kinds, signal)
  if (unrendered.length > 0) return { problems: unrendered }
  const job = { files: rendered, scopes: kinds.scopes, options, ...(chart && { chart }), ...(budget && { budget }) }
  const { manifests, problems } = await read(job, signal)
  if (problems.length > 0) return { problems }
  const { graph, problems: cycles } = waveGraph(manifests)
  return cycles.length > 0 ? { problems: cycles } : { manifests, graph, kinds, notes }
}
