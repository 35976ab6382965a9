import { type WaveGraph, waveGraph } from './apply/wave-graph.ts'
import type { ClusterKinds } from './cluster-kinds.ts'
import { desired } from './manifests/desired.ts'
import type { Manifest, ManifestProblem, RepositoryFile } from './manifests/manifest.ts'
import { readFiles } from './manifests/read-yaml.ts'
import type { SharedKinds } from './shared-kinds.ts'
import type { SourceOptions } from './source-options.ts'

export interface WantedComponents {
  readonly kinds: SharedKinds
  /** manifests of what the repository holds */
  readonly render: (
    files: readonly RepositoryFile[],
    kinds: ClusterKinds,
    signal: AbortSignal,
  ) => Promise<{ files: readonly RepositoryFile[]; problems: readonly ManifestProblem[] }>
}

/** What a commit wants of the cluster, in order. */
export interface Wanted {
  readonly manifests: readonly Manifest[]
  readonly graph: WaveGraph
  readonly kinds: ClusterKinds
}

/** @returns the problems for which the commit is refused. @throws as `render`, and why kinds cannot be read */
export async function readWanted(
  { kinds: shared, render }: WantedComponents,
  files: readonly RepositoryFile[],
  options: SourceOptions,
  signal: AbortSignal,
): Promise<Wanted | { problems: readonly ManifestProblem[] }> {
  const kinds = await shared.current(signal)
  const rendered = await render(files, kinds, signal)
  if (rendered.problems.length > 0) return { problems: rendered.problems }
  const { documents, problems } = readFiles(rendered.files)
  if (problems.length > 0) return { problems }
  const found = desired(documents, kinds, options)
  if (found.problems.length > 0) return { problems: found.problems }
  const manifests = [...found.manifests, ...found.unknown]
  const { graph, problems: cycles } = waveGraph(manifests)
  return cycles.length > 0 ? { problems: cycles } : { manifests, graph, kinds }
}
