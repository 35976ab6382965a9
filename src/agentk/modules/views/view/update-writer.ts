import { viewsBounds } from '../../../../proto/views-json.ts'

const sections = ['rows', 'gone', 'events', 'pages', 'kinds'] as const
type Section = (typeof sections)[number]
/** these are objects, the others lists */
const keyed: ReadonlySet<Section> = new Set(['pages', 'kinds'])
/** of what stands around the parts */
const frameBytes = 256

/** One update, put together part by part, of so many bytes at most. */
export class UpdateWriter {
  readonly #parts = new Map<Section, string[]>()
  readonly #maxBytes: number
  #state = ''
  #bytes = frameBytes
  #isEmpty = true

  constructor(maxBytes: number = viewsBounds.maxUpdateBytes) {
    this.#maxBytes = maxBytes
  }

  get isEmpty(): boolean {
    return this.#isEmpty
  }

  /** The first part: there is room for it. */
  state(json: string): void {
    this.#take(json)
    this.#state = json
  }

  /**
   * Takes all of them, or none.
   *
   * @param parts - JSON each; with its key where the section has keys
   * @returns whether there was room
   */
  add(...parts: readonly (readonly [section: Section, json: string])[]): boolean {
    const bytes = parts.reduce((sum, [, json]) => sum + Buffer.byteLength(json) + 1, 0)
    if (!this.#isEmpty && this.#bytes + bytes > this.#maxBytes) return false
    for (const [section, json] of parts) {
      this.#take(json)
      const known = this.#parts.get(section)
      if (known) known.push(json)
      else this.#parts.set(section, [json])
    }
    return true
  }

  /** @param at - ms since 1970 */
  end(seq: number, at: number): Uint8Array {
    const members = [`"seq":${seq}`, `"at":${Math.floor(at)}`]
    for (const section of sections) {
      const parts = this.#parts.get(section)?.join(',')
      if (parts !== undefined) members.push(keyed.has(section) ? `"${section}":{${parts}}` : `"${section}":[${parts}]`)
    }
    if (this.#state) members.push(`"state":${this.#state}`)
    return Buffer.from(`{${members.join(',')}}`)
  }

  #take(json: string): void {
    this.#isEmpty = false
    this.#bytes += Buffer.byteLength(json) + 1
  }
}

export function keyedPart(key: string, value: unknown): string {
  return `${JSON.stringify(key)}:${JSON.stringify(value)}`
}
