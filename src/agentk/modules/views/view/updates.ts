import type { Clock } from '../../../../lib/clock.ts'
import { type PageState, type ViewState, viewsBounds } from '../../../../proto/views-json.ts'
import { updatePauseMs } from '../store/time-slices.ts'
import type { RunInTurns } from '../tree/scans.ts'

const sections = ['rows', 'gone', 'events', 'pages', 'kinds', 'darc', 'dvx', 'svx', 'sarc'] as const
type Section = (typeof sections)[number]
/** these sections are objects, the others lists */
const keyed: ReadonlySet<Section> = new Set(['pages', 'kinds'])
/** bytes besides the parts */
const frameBytes = 256

export interface UpdatesComponents {
  readonly clock: Clock
  /** Returns how updates take turns with others that send; undefined: there is nothing to write yet. */
  readonly turn: () => RunInTurns | undefined
  /** called before an update is written: the state that is due may differ */
  readonly onDue: () => void
  /**
   * Writes the difference from what was sent.
   *
   * @returns true: that is all; false: the rest follows; undefined: nothing is to be sent yet, not even the state
   */
  readonly write: (update: Update) => boolean | undefined
  readonly send: (seq: number, json: Uint8Array) => void
}

/** Sends the updates of one view: the first at once, each further one after the one before was taken. */
export class Updates {
  readonly #components: UpdatesComponents
  /** JSON of the pages that were sent, by node */
  readonly #pages = new Map<string, string>()
  /** nodes that have no page, or no longer: to be reported */
  readonly #refused = new Set<string>()
  #state = ''
  #sentState = ''
  #isAsked = false
  #isClosed = false
  #isInFlight = false
  #seq = 0
  #sentAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | undefined

  constructor(components: UpdatesComponents) {
    this.#components = components
  }

  /** Asks for an update: something may differ. */
  request(): void {
    this.#isAsked = true
    this.#schedule()
  }

  setState(state: ViewState): void {
    const json = JSON.stringify(state)
    if (json === this.#state) return
    this.#state = json
    this.request()
  }

  /** Notes that a page is asked for: if there is none, this is reported again. */
  pageOpened(node: string): void {
    this.#refused.delete(node)
  }

  /** Notes that there is no such page; `maxPages` of them are reported at most. */
  pageRefused(node: string): void {
    if (this.#refused.size < viewsBounds.maxPages) this.#refused.add(node)
  }

  /** Notes that a page that was open has ended. */
  pageRemoved(node: string): void {
    this.#refused.add(node)
  }

  taken(seq: number): void {
    if (seq !== this.#seq) return
    this.#isInFlight = false
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #schedule(): void {
    if (!this.#isAsked || this.#isInFlight || this.#cancel || this.#isClosed) return
    const { clock } = this.#components
    const waitMs = this.#sentAt + updatePauseMs - clock.now()
    // a clock that was set back makes no pause longer
    this.#cancel = clock.after(Math.min(Math.max(0, waitMs), updatePauseMs), () => this.#wait())
  }

  #wait(): void {
    const run = this.#components.turn()
    if (!run) {
      this.#flush()
      return
    }
    let isOver = false
    const step = () => {
      isOver = true
      this.#flush()
      return false
    }
    const cancel = run(step, () => undefined)
    if (!isOver) this.#cancel = cancel
  }

  #flush(): void {
    const { clock, onDue, write, send } = this.#components
    onDue() // first: the changes that it asks for are part of this update
    this.#cancel = undefined
    this.#isAsked = false
    const state = this.#state === this.#sentState ? '' : this.#state
    const update = new Update({ state, pages: this.#pages, refused: this.#refused })
    const isWhole = write(update)
    if (isWhole === undefined) return
    this.#sentState = this.#state
    this.#isAsked ||= !isWhole
    if (update.isEmpty) {
      this.#schedule()
      return
    }
    this.#seq++
    this.#sentAt = clock.now()
    this.#isInFlight = true
    send(this.#seq, update.end(this.#seq, this.#sentAt))
  }
}

interface Sent {
  /** JSON; empty: it does not differ from what was sent */
  readonly state: string
  readonly pages: Map<string, string>
  readonly refused: Set<string>
}

/** One update, put together part by part, within a bound of bytes. */
export class Update {
  readonly #sent: Sent
  readonly #parts = new Map<Section, string[]>()
  #bytes = frameBytes
  #isEmpty = true
  readonly #marks: string[] = []

  constructor(sent: Sent) {
    this.#sent = sent
    if (sent.state) this.#take(sent.state) // the first part: there is room for it
  }

  get isEmpty(): boolean {
    return this.#isEmpty
  }

  /**
   * Adds all of them, or none.
   *
   * @param parts - JSON of each; with its key if the section has keys
   * @returns true if there was room
   */
  add(...parts: readonly (readonly [section: Section, json: string])[]): boolean {
    const bytes = parts.reduce((sum, [, json]) => sum + Buffer.byteLength(json) + 1, 0)
    if (!this.#isEmpty && this.#bytes + bytes > viewsBounds.maxUpdateBytes) return false
    for (const [section, json] of parts) {
      this.#take(json)
      const known = this.#parts.get(section)
      if (known) known.push(json)
      else this.#parts.set(section, [json])
    }
    return true
  }

  /** Marks the update as a whole, if there is one. */
  mark(name: 'more' | 'cut'): void {
    this.#marks.push(name)
  }

  /**
   * Adds the page of a node, if it differs; null: there is none.
   *
   * @returns true if there was room
   */
  page(node: string, state: PageState | null): boolean {
    const { pages, refused } = this.#sent
    const part = keyedPart(node, state)
    if (part === pages.get(node)) return true
    if (!this.add(['pages', part])) return false
    pages.set(node, part)
    refused.delete(node)
    return true
  }

  /**
   * Adds the pages that do not exist.
   *
   * @returns true if there was room
   */
  refusals(): boolean {
    const { pages, refused } = this.#sent
    for (const node of refused) {
      if (!this.add(['pages', keyedPart(node, null)])) return false
      pages.delete(node)
      refused.delete(node)
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
    if (this.#sent.state) members.push(`"state":${this.#sent.state}`)
    for (const name of this.#marks) members.push(`"${name}":true`)
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
