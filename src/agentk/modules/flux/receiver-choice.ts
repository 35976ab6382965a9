import type { GitRepository, Receiver } from './flux-objects.ts'

/** Which Receiver belongs to what: rules without state. */

/** The only type that asks for no signature of its sender: agentk reads no Secrets, so it could not make one. */
const callableType = 'generic'

/** What Flux gives: `/hook/` and a digest. Nothing that would lead out of it, since agentk's own rights go along. */
const webhookPath = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.-]+)+$/

export function isCallable({ type, isSuspended, webhookPath: path }: Receiver): boolean {
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
export function annotatedReceivers(receivers: Iterable<Receiver>): Receiver[] {
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
