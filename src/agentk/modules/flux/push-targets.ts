import type { GitRepository, Receiver } from './flux-objects.ts'
import { annotatedReceivers, isCallable, ownReceiver, receiverOf } from './receiver-choice.ts'
import type { Target } from './webhooks.ts'

export interface FluxState {
  readonly repositories: () => ReadonlyMap<string, GitRepository>
  readonly receivers: () => ReadonlyMap<string, Receiver>
  /** full path; undefined: of another host */
  readonly projectOf: (repository: GitRepository) => string | undefined
  /** no Receivers can be made there */
  readonly isDenied: (namespace: string) => boolean
}

/**
 * What a push to a project triggers: one Receiver for each GitRepository that reads it, and those that are annotated
 * with it. A Receiver that is there for several of them is one target.
 */
export function pushTargets(project: string, state: FluxState): Target[] {
  const targets = new Map<string, Target>()
  for (const repository of state.repositories().values()) {
    if (state.projectOf(repository) !== project) continue
    const path = () => pathFor(repository, state)
    if (path() === undefined) continue
    const key = receiverOf(repository, state.receivers().values())?.key ?? `GitRepository ${repository.key}`
    targets.set(key, { key, project, path })
  }
  for (const { key } of annotatedReceivers(state.receivers().values()).filter((each) => each.project === project)) {
    targets.set(key, { key, project, path: () => pathOf(state.receivers().get(key)) })
  }
  return [...targets.values()]
}

/** '': none yet. undefined: there is, and will be, none */
function pathFor({ key, uid }: GitRepository, { repositories, receivers, isDenied }: FluxState): string | undefined {
  const repository = repositories().get(key)
  if (repository?.uid !== uid) return undefined
  const receiver = receiverOf(repository, receivers().values())
  if (receiver) return receiver.webhookPath
  const own = ownReceiver(repository, receivers().values())
  return own?.isSuspended || (!own && isDenied(repository.namespace)) ? undefined : ''
}

function pathOf(receiver: Receiver | undefined): string | undefined {
  if (!receiver || receiver.isSuspended) return undefined
  return isCallable(receiver) ? receiver.webhookPath : ''
}
