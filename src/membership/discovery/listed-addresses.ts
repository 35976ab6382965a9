import { parseHostPort } from '../../lib/host-port.ts'
import type { DiscoverySource } from './source.ts'

/** Addresses that all discovery sources together list now. */
export class ListedAddresses {
  readonly #sources: readonly DiscoverySource[]
  #all: readonly string[] = []
  #hosts: ReadonlySet<string> = new Set()
  #unsubscribe: (() => void)[] = []

  constructor(components: { sources: readonly DiscoverySource[] }) {
    this.#sources = components.sources
  }

  /** `10.0.0.7:8156`, `[fd00::1]:8156`; sorted, each once */
  get all(): readonly string[] {
    return this.#all
  }

  /** hosts of `all`, without ports */
  get hosts(): ReadonlySet<string> {
    return this.#hosts
  }

  /** Calls `onChange` now, and after each change until `stop`. */
  start(onChange: () => void): void {
    const update = () => {
      this.#all = [...new Set(this.#sources.flatMap((source) => source.current().addresses))].sort()
      this.#hosts = new Set(this.#all.map((address) => parseHostPort(address)?.host ?? ''))
      onChange()
    }
    this.#unsubscribe = this.#sources.map((source) => source.onChange(update))
    update()
  }

  stop(): void {
    for (const undo of this.#unsubscribe.splice(0)) undo()
  }
}
