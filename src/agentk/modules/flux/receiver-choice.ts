import type { GitRepository, Receiver } from './flux-objects.ts'
import type { Target } from './webhooks.ts'

/** Which Receiver belongs to what: rules without state. */

/** The only type that asks for no signature of its sender: agentk reads no Secrets, so it could not make one. */
const callableType = 'generic'

/** What Flux gives: `/hook/` and a digest. Nothing that would lead out of it, since agentk's own rights go along. */
const webhookPath = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.-]+)+$/

function isCallable({ type, isSuspended, webhookPath: path }: Receiver): boolean {
  return type === callableType && !isSuspended && webhookPath.test(path)
}

/** The one that an agentk has made for this GitRepository. */
export function ownReceiver(repository: GitRepository, receivers: Iterable<Receiver>): Receiver | undefined {
  for (const each of receivers) if (isOwn(each, repository)) return each
  return undefined
}

/** Those of the GitRepository's namespace that others have made, and that agentk may call for it. */
export function othersReceivers(repository: GitRepository, receivers: Iterable<Receiver>): Receiver[] {
  return [...receivers]
    .filter((each) => each.namespace === repository.namespace && !each.isManaged)
    .filter((each) => each.type === callableType && !each.isSuspended && names(each, repository))
    .sort((a, b) => a.resources.length - b.resources.length || (a.name < b.name ? -1 : 1))
}

/** The one to call for it: its own before one that others have made, and that may name more. undefined: none yet */
export function receiverOf(repository: GitRepository, receivers: Iterable<Receiver>): Receiver | undefined {
  const all = [...receivers]
  const own = ownReceiver(repository, all)
  if (own && isCallable(own)) return own
  return othersReceivers(repository, all).find(isCallable)
}

/** Those that say themselves, by annotation, that they are for a project; those that agentk made are for its objects. */
function annotatedReceivers(receivers: Iterable<Receiver>): Receiver[] {
  return [...receivers].filter((each) => each.project !== '' && !each.isManaged && each.type === callableType)
}

/** Whether it triggers this GitRepository as itself, not by labels. */
export function names(receiver: Receiver, { namespace, name }: GitRepository): boolean {
  return receiver.resources.some(
    (each) => each.kind === 'GitRepository' && each.name === name && each.namespace === namespace,
  )
}

function isOwn(receiver: Receiver, { namespace, uid }: GitRepository): boolean {
  return receiver.isManaged && receiver.namespace === namespace && receiver.ownerUid === uid && uid !== ''
}

/** Finds the Receivers that may be a GitRepository's without going through all others. As they are when it is made. */
export class ReceiverIndex {
  readonly #found = new Map<string, Receiver[]>()

  constructor(receivers: Iterable<Receiver>) {
    for (const receiver of receivers) for (const key of keysOf(receiver)) this.#add(key, receiver)
  }

  /** Those that it owns, and those of others that name it in its namespace. */
  of({ namespace, name, uid }: GitRepository): Receiver[] {
    const owned = this.#found.get(ownedKey(namespace, uid)) ?? []
    return [...owned, ...(this.#found.get(namedKey(namespace, name)) ?? [])]
  }

  #add(key: string, receiver: Receiver): void {
    const found = this.#found.get(key)
    if (found) found.push(receiver)
    else this.#found.set(key, [receiver])
  }
}

function keysOf({ namespace, isManaged, ownerUid, resources }: Receiver): Iterable<string> {
  if (isManaged) return ownerUid === '' ? [] : [ownedKey(namespace, ownerUid)]
  const named = resources.filter((each) => each.kind === 'GitRepository' && each.namespace === namespace)
  return new Set(named.map(({ name }) => namedKey(namespace, name)))
}

function ownedKey(namespace: string, uid: string): string {
  return `owned ${namespace} ${uid}`
}

function namedKey(namespace: string, name: string): string {
  return `named ${namespace} ${name}`
}

/** What is there by now. */
interface FluxState {
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
