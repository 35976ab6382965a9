import type { GitRepository, Receiver } from './flux-objects.ts'

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
