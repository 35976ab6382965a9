export interface KeptTextsOptions {
  /** characters of one text */
  readonly maxText: number
  /** characters of all; past it, the namespace with the most loses texts first */
  readonly max: number
}

export const keptTextsDefaults: KeptTextsOptions = { maxText: 16 * 1024, max: 16 * 1024 * 1024 }

interface Kept {
  readonly namespace: string
  readonly text: string
}

interface OfNamespace {
  characters: number
  /** uids in order of arrival */
  readonly uids: Set<string>
}

/** Texts by uid, within bounds: a namespace that is full of them takes no room from others. */
export class KeptTexts {
  readonly #options: KeptTextsOptions
  readonly #kept = new Map<string, Kept>()
  readonly #namespaces = new Map<string, OfNamespace>()
  #characters = 0

  constructor(options: KeptTextsOptions = keptTextsDefaults) {
    this.#options = options
  }

  /** Text of a uid; '': there is none, or there was no room. */
  get(uid: string): string {
    return this.#kept.get(uid)?.text ?? ''
  }

  set(uid: string, namespace: string, text: string): void {
    this.delete(uid)
    if (text === '' || text.length > this.#options.maxText || !this.#makeRoom(namespace, text.length)) return
    const own = this.#namespaces.get(namespace) ?? { characters: 0, uids: new Set() }
    this.#namespaces.set(namespace, own)
    own.characters += text.length
    own.uids.add(uid)
    this.#characters += text.length
    this.#kept.set(uid, { namespace, text })
  }

  delete(uid: string): void {
    const known = this.#kept.get(uid)
    if (!known) return
    const own = this.#namespaces.get(known.namespace) as OfNamespace
    own.characters -= known.text.length
    own.uids.delete(uid)
    if (own.uids.size === 0) this.#namespaces.delete(known.namespace)
    this.#characters -= known.text.length
    this.#kept.delete(uid)
  }

  /** @returns false: there is no room, since the namespace itself would have the most */
  #makeRoom(namespace: string, characters: number): boolean {
    const ofOwn = (this.#namespaces.get(namespace)?.characters ?? 0) + characters
    while (this.#characters + characters > this.#options.max) {
      const largest = this.#largest()
      if (!largest || largest.characters <= ofOwn) return false
      const [first] = largest.uids
      this.delete(first as string)
    }
    return true
  }

  #largest(): OfNamespace | undefined {
    let largest: OfNamespace | undefined
    for (const one of this.#namespaces.values()) if (!largest || one.characters > largest.characters) largest = one
    return largest
  }
}
