export interface RecentlyUsedComponents<Thing> {
  /** Called after `thing` was dropped: it made room, or all things end. */
  ended(key: string, thing: Thing): void
}

export interface RecentlyUsedOptions {
  /** things that are kept; more only while all of them are in use */
  readonly max: number
}

/** Things by key. When there is one too many, the longest unused thing that is not in use ends. */
export class RecentlyUsed<Thing extends { readonly inUse: boolean }> {
  readonly #components: RecentlyUsedComponents<Thing>
  readonly #options: RecentlyUsedOptions
  /** longest unused first */
  readonly #things = new Map<string, Thing>()

  constructor(components: RecentlyUsedComponents<Thing>, options: RecentlyUsedOptions) {
    this.#components = components
    this.#options = options
  }

  /** Returns the thing of `key`; makes it if there is none. */
  at(key: string, make: () => Thing): Thing {
    const thing = this.#things.get(key) ?? make()
    this.#things.delete(key) // to the end: the most recently used
    this.#things.set(key, thing)
    this.#makeRoom(thing)
    return thing
  }

  /** Returns the thing of `key` if there is one. This does not count as a use. */
  peek(key: string): Thing | undefined {
    return this.#things.get(key)
  }

  /** Ends `thing` if it is still the one of `key`. */
  end(key: string, thing: Thing): void {
    if (this.#things.get(key) === thing) this.#end(key, thing)
  }

  clear(): void {
    for (const [key, thing] of this.#things) this.#end(key, thing)
  }

  #makeRoom(newest: Thing): void {
    if (this.#things.size <= this.#options.max) return
    for (const [key, thing] of this.#things) {
      if (thing.inUse || thing === newest) continue
      this.#end(key, thing)
      return
    }
  }

  #end(key: string, thing: Thing): void {
    this.#things.delete(key)
    this.#components.ended(key, thing)
  }
}
