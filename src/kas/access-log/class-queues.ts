import type { LineSource } from '../../lib/line-writer.ts'
import { FairQueue } from '../../lib/turns.ts'
import { type LineClass, lineClasses } from '../config/access-log.ts'
import { type AccessLine, accessLineText } from './access-line.ts'

interface Waiting {
  readonly source: string
  readonly text: string
  readonly bytes: number
}

interface ClassQueue {
  readonly name: LineClass
  readonly waiting: FairQueue<Waiting>
  lost: number
  /** ms since 1970 */
  lostSince: number
}

export interface ClassQueuesComponents {
  /** ms since 1970 */
  readonly now: () => number
  /** called for each line that is made; it may be lost before it is written */
  readonly onLine: (line: AccessLine, text: string) => void
  readonly onTaken: (name: LineClass) => void
  readonly onLost: (name: LineClass) => void
}

export interface ClassQueuesOptions {
  /** name of this replica */
  readonly entry: string
  /** bound of each class; default: `queueBytes` */
  readonly maxBytes?: Readonly<Record<LineClass, number>>
}

const mib = 1024 * 1024

/** Bounds of waiting lines, by class: 8 MiB in all, some 20,000 lines. */
const queueBytes: Readonly<Record<LineClass, number>> = {
  write: 2 * mib,
  exec: mib,
  secret: mib,
  watch: mib,
  session: mib / 2,
  refusal: mib / 2,
  read: 2 * mib,
}

/** A line is not even made if there is no room for this many bytes. */
const usualBytes = 512

/**
 * Lines of the access log that wait to be written. Each class has its own bound, and the first class is written first,
 * so that reads never cost a line about a write. Within a class callers take turns, and share the bound. Lost lines are
 * counted, and reported once there is room again.
 */
export class ClassQueues implements LineSource {
  readonly #components: ClassQueuesComponents
  readonly #entry: string
  readonly #queues: Readonly<Record<LineClass, ClassQueue>>
  /** queues in the order of writing */
  readonly #ordered: readonly ClassQueue[]

  constructor(components: ClassQueuesComponents, { entry, maxBytes = queueBytes }: ClassQueuesOptions) {
    this.#components = components
    this.#entry = entry
    this.#ordered = lineClasses.map((name) => {
      const waiting = new FairQueue<Waiting>(maxBytes[name], ({ bytes }) => bytes)
      return { name, waiting, lost: 0, lostSince: 0 }
    })
    this.#queues = Object.fromEntries(this.#ordered.map((queue) => [queue.name, queue])) as Record<
      LineClass,
      ClassQueue
    >
  }

  /** number of waiting lines */
  get size(): number {
    return this.#ordered.reduce((sum, { waiting }) => sum + waiting.size, 0)
  }

  /**
   * @param source - source whose turn the line takes
   * @param make - makes the line; not called if it would be lost
   */
  add(name: LineClass, source: string, make: () => AccessLine): void {
    const queue = this.#queues[name]
    if (!queue.waiting.hasPlace(source, usualBytes)) {
      this.#lose(queue)
      return
    }
    const line = make()
    const text = accessLineText(line)
    this.#components.onLine(line, text)
    queue.waiting.place({ source, text, bytes: Buffer.byteLength(text) }, () => this.#lose(queue))
  }

  take(maxBytes: number): string | undefined {
    let taken = ''
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      taken += next
      if (taken.length >= maxBytes) break
    }
    return taken === '' ? undefined : taken
  }

  /** Returns the next line; before that, the report of lost lines of its class. */
  #next(): string | undefined {
    for (const queue of this.#ordered) {
      if (queue.lost > 0) return this.#lostText(queue)
      const next = queue.waiting.take()
      if (!next) continue
      this.#components.onTaken(queue.name)
      return next.text
    }
    return undefined
  }

  #lose(queue: ClassQueue): void {
    if (queue.lost === 0) queue.lostSince = this.#components.now()
    queue.lost += 1
    this.#components.onLost(queue.name)
  }

  #lostText(queue: ClassQueue): string {
    const line: AccessLine = {
      time: new Date(this.#components.now()).toISOString(),
      event: 'lost',
      class: queue.name,
      entry: this.#entry,
      count: queue.lost,
      since: new Date(queue.lostSince).toISOString(),
    }
    queue.lost = 0
    const text = accessLineText(line)
    this.#components.onLine(line, text)
    this.#components.onTaken(queue.name)
    return text
  }
}
