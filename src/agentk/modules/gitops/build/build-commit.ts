import { dirname } from 'node:path/posix'
import { keyName, keyText } from '../../../../kubernetes/key.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { variableNotes } from '../manifests/flux-variables.ts'
import { webhooksOfHooks } from '../manifests/hooks.ts'
import { annotationNotes } from '../manifests/left-alone.ts'
import type { Manifest, RepositoryFile } from '../manifests/manifest.ts'
import { kustomizationFile } from '../manifests/normal-object.ts'
import type { ManifestsAnswer } from '../manifests/read-manifests.ts'
import type { Rendered } from '../render/renderer.ts'
import type { Build, Refusal } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { ReadJob } from './manifests-thread.ts'
import { waveGraph } from './wave-graph.ts'

export interface BuildComponents {
  readonly kinds: Pick<SharedKinds, 'current'>
  /** renders manifests from the files of the repository */
  readonly render: (
    files: readonly RepositoryFile[],
    kinds: ClusterKinds,
    signal: AbortSignal,
  ) => Promise<Pick<Rendered, 'files' | 'problems' | 'chart' | 'budget'> & Partial<Pick<Rendered, 'notes' | 'hooks'>>>
  /** reads the objects of manifests */
  readonly read: (job: ReadJob, signal: AbortSignal) => Promise<ManifestsAnswer>
}

/** Builds a commit: renders, reads and orders its objects. @throws as `render`, `read` and `SharedKinds.current` */
export async function buildCommit(
  { kinds: shared, render, read }: BuildComponents,
  files: readonly RepositoryFile[],
  options: SourceOptions,
  signal: AbortSignal,
): Promise<Build | Refusal> {
  const kinds = await shared.current(signal)
  const { problems: failed, files: rendered, ...made } = await render(files, kinds, signal)
  const { notes = [], hooks: notRun = [], chart, budget } = made
  if (failed.length > 0) return { kind: 'refused', problems: failed }
  const job = { files: rendered, scopes: kinds.scopes, options, ...(chart && { chart }), ...(budget && { budget }) }
  const { manifests: all, problems } = await read(job, signal)
  if (problems.length > 0) return { kind: 'refused', problems }
  const { manifests, hooks, hookNotes } = withoutHooks(all)
  if (options.helm && options.helm.hooks !== 'skip') {
    const unusable = webhooksOfHooks(manifests, notRun)
    if (unusable.length > 0) return { kind: 'refused', problems: unusable }
  }
  const { graph, problems: cycles } = waveGraph(manifests)
  if (cycles.length > 0) return { kind: 'refused', problems: cycles }
  const isPartial = options.helm !== undefined && !kinds.isWhole
  const unrendered = options.kustomize || options.helm ? [] : notRendered(files)
  const variables = options.helm ? [] : variableNotes(manifests)
  return {
    kind: 'built',
    manifests,
    graph,
    kinds,
    hooks,
    notes: [...notes, ...hookNotes, ...unrendered, ...annotationNotes(manifests), ...variables],
    isPartial,
  }
}

/** Limit of kustomizations in notes. */
const maxKustomizations = 5

/** Returns notes about kustomizations: a plain source reads each file by itself, so they have no effect. */
function notRendered(files: readonly RepositoryFile[]): string[] {
  const found = files.flatMap(({ path }) => (kustomizationFile.test(path) ? [path] : []))
  const more = found.length - maxKustomizations
  const notes = found
    .slice(0, maxKustomizations)
    .map(
      (path) => `${path} is not rendered: write kustomize: { path: ${dirname(path)} } for its folder, or leave it out`,
    )
  return more > 0 ? [...notes, `and ${more} more kustomizations`] : notes
}

/** Limit of hooks in notes. */
const maxHooksNamed = 20

/** Leaves out hooks of other tools that agentk never runs; other hooks are ordinary objects. */
function withoutHooks(all: readonly Manifest[]) {
  const manifests: Manifest[] = []
  const hooks = new Set<string>()
  const hookNotes: string[] = []
  for (const manifest of all) {
    const { hook } = manifest
    if (hook?.isMade !== false) manifests.push(manifest)
    else hooks.add(keyText(manifest.key))
    const what = hook?.isMade ? 'made like other objects' : 'not made'
    if (hook) hookNotes.push(`${keyName(manifest.key)} is a hook (${hook.text}): ${what}`)
  }
  const more = hookNotes.length - maxHooksNamed
  return {
    manifests,
    hooks,
    hookNotes: more > 0 ? [...hookNotes.slice(0, maxHooksNamed), `and ${more} more hooks`] : hookNotes,
  }
}

/** Returns the build of a source that has left the configuration: it wants nothing. */
export function emptyBuild(kinds: ClusterKinds): Build {
  return {
    kind: 'built',
    manifests: [],
    graph: waveGraph([]).graph,
    kinds,
    hooks: new Set(),
    notes: [],
    isPartial: false,
  }
}
