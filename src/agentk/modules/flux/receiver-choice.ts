import type { GitRepository, Receiver } from './flux-objects.ts'
import type { Target } from './webhooks.ts'

/** Rules, without state, that assign Receivers to GitRepositories and projects. */

/** The only type without a signature of the sender. agentk reads no Secrets, so it cannot sign. */
const callableType = 'generic'

/** Path that Flux sets: `/hook/` and a digest. No part is `.` or `..`, since agentk's own rights go along. */
const webhookPath = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.-]+)+$/

function isCallable({ type, isSuspended, webhookPath: path }: Receiver): boolean {
  return type === callableType && !isSuspended && webhookPath.test(path)
}

/** Finds the Receiver that an agentk made for this GitRepository. */
export function ownReceiver(repository: GitRepository, receivers: Iterable<Receiver>): Receiver | undefined {
  for (const each of receivers) if (isOwn(each, repository)) return each
  return undefined
}

/** Returns the Receivers of the GitRepository's namespace that others made and agentk may call for it. */
export function othersReceivers(repository: GitRepository, receivers: Iterable<Receiver>): Receiver[] {
  return [...receivers]
    .filter((each) => each.namespace === repository.namespace && !each.isManaged)
    .filter((each) => each.type === callableType && !each.isSuspended && names(each, repository))
    .sort((a, b) => a.resources.length - b.resources.length || (a.name < b.name ? -1 : 1))
}

/** Returns the Receiver to call: agentk's own first, since others may trigger more. undefined: none yet */
export function receiverOf(repository: GitRepository, receivers: Iterable<Receiver>): Receiver | undefined {
  const all = [...receivers]
  const own = ownReceiver(repository, all)
  if (own && isCallable(own)) return own
  return othersReceivers(repository, all).find(isCallable)
}

/** Returns others' Receivers that name a project by annotation. agentk's own are for their GitRepository alone. */
function annotatedReceivers(receivers: Iterable<Receiver>): Receiver[] {
  return [...receivers].filter((each) => each.project !== '' && !each.isManaged && each.type === callableType)
}

/** True if the Receiver names this GitRepository itself, not by labels. */
export function names(receiver: Receiver, { namespace, name }: GitRepository): boolean {
  return receiver.resources.some(
    (each) => each.kind === 'GitRepository' && each.name === name && each.namespace === namespace,
  )
}

function isOwn(receiver: Receiver, { namespace, uid }: GitRepository): boolean {
  return receiver.isManaged && receiver.namespace === namespace && receiver.ownerUid === uid && uid !== ''
}

/** Index of Receivers by GitRepository, as of its construction; it replaces a search through all Receivers. */
export class ReceiverIndex {
  readonly #found = new Map<string, Receiver[]>()

  constructor(receivers: Iterable<Receiver>) {
    for (const receiver of receivers) for (const key of keysOf(receiver)) this.#add(key, receiver)
  }

  /** Returns the Receivers that the GitRepository owns, and others' in its namespace that name it. */
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

/** Current objects of Flux. */
interface FluxState {
  readonly repositories: () => ReadonlyMap<string, GitRepository>
  readonly receivers: () => ReadonlyMap<string, Receiver>
  /** full path; undefined: on another host */
  readonly projectOf: (repository: GitRepository) => string | undefined
  /** true if agentk may not make Receivers in the namespace */
  readonly isDenied: (namespace: string) => boolean
}

/**
 * Returns the targets of a push to a project: one Receiver for each GitRepository that reads it, and the Receivers
 * that are annotated with it. A Receiver that serves several GitRepositories is one target.
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

/** Returns the webhook's path. '': no Receiver can be called yet; undefined: there is none, and will be none */
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
