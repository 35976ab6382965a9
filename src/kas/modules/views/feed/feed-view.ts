import { KasError } from '../../../../lib/errors.ts'
import { type Update, viewsBounds } from '../../../../proto/views-json.ts'
import type { PageWanted, ViewSteps } from './follow-steps.ts'
import type { OpenView, Viewer, WantedView } from './view.ts'

/** The feed that a view is part of. */
export interface ViewOwner {
  /** Called when the view has no viewer any more. */
  closed(view: FeedView): void
  /** Begins the view again, if the agent is followed. */
  restarted(view: FeedView): void
  /** Ignores later responses under this number of the present Follow. */
  dropped(number: number): void
  /** Changes the count of bytes that the viewer has not taken. */
  unsent(change: number): void
}

interface Offered {
  readonly seq: number
  readonly json: Uint8Array
  readonly onTaken: () => void
}

/**
 * Characters of the ids of open nodes together (`open_node_characters_of_view`): enough for the highest number of
 * nodes, where a uid has 36.
 */
const maxPageCharacters = 64 * 1024

/** Memory of a view beside its query, and of an open node beside its id, in bytes. */
const viewBytes = 4096
const nodeBytes = 256

/** One view of one viewer, over all Follows of its life: the viewer's requests, and the updates that the viewer got. */
export class FeedView implements OpenView {
  /** steps on the present Follow; undefined: there is none, or the view has ended on it */
  steps: ViewSteps | undefined
  /** ends the wait for the first update */
  cancelWait: () => void = () => undefined
  readonly #owner: ViewOwner
  readonly #viewer: Viewer
  readonly #onEnd: () => void
  #wanted: WantedView
  /** the last update was for another identity of the caller */
  #isForAnother = false
  /** bytes of the viewer's requests, as its memory counts them */
  #askedBytes = 0
  /** open nodes, beside the root */
  readonly #pages = new Map<string, PageWanted>()
  /** the update that the viewer is taking */
  #offered: Offered | undefined
  /** the next update for the viewer */
  #next: Offered | undefined
  /** number of the last update that the viewer got, or is taking */
  #lastSeq = 0
  /**
   * - `waiting`: no update has come yet
   * - `current`: one has come on the present Follow
   * - `lost`: one has come on an earlier Follow
   * - `stale`: the same, and the viewer knows it
   * - `ended`
   */
  #state: 'waiting' | 'current' | 'lost' | 'stale' | 'ended' = 'waiting'

  /** @param onEnd - called when the view takes no more room */
  constructor(owner: ViewOwner, wanted: WantedView, viewer: Viewer, onEnd: () => void) {
    this.#owner = owner
    this.#wanted = wanted
    this.#viewer = viewer
    this.#onEnd = onEnd
    this.#countAsked(viewBytes + wanted.query.length)
  }

  get wanted(): WantedView {
    return this.#wanted
  }

  get pages(): ReadonlyMap<string, PageWanted> {
    return this.#pages
  }

  /** True if the viewer has rows from before, with the same permissions. */
  get resumes(): boolean {
    return (this.#state === 'lost' || this.#state === 'stale') && !this.#isForAnother
  }

  get isWaiting(): boolean {
    return this.#state === 'waiting'
  }

  page(node: string, limit: number, offset = 0): void {
    if (this.#state === 'ended') return
    const isOpen = this.#pages.delete(node)
    if (limit === 0 && !isOpen) return
    if (limit > 0) {
      this.#checkRoom(node)
      this.#pages.set(node, { limit, offset })
    }
    const bytes = nodeBytes + 2 * node.length
    if (limit === 0) this.#countAsked(-bytes)
    else if (!isOpen) this.#countAsked(bytes)
    this.steps?.page(node, { limit, offset })
  }

  /** @throws KasError TOO_MANY_STREAMS */
  #checkRoom(node: string): void {
    const { maxPages } = viewsBounds
    let characters = node.length
    for (const open of this.#pages.keys()) characters += open.length
    const what = 'open nodes of this view'
    if (this.#pages.size >= maxPages)
      throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'open_nodes_of_view', limit: maxPages, what })
    if (characters <= maxPageCharacters) return
    const name = 'open_node_characters_of_view'
    throw new KasError({ code: 'TOO_MANY_STREAMS', name, limit: maxPageCharacters, what: `characters in ${what}` })
  }

  reopen(as: WantedView['as']): void {
    if (this.#state === 'ended') return
    this.#wanted = { ...this.#wanted, as }
    this.#isForAnother = true
    this.#leave()
    this.lost()
    this.#owner.restarted(this)
  }

  close(): void {
    if (this.#state === 'ended') return
    this.#end()
    this.#owner.closed(this)
  }

  /**
   * Offers an update of the present Follow, whose size was checked.
   *
   * @throws KasError INVALID_MESSAGE: the last is not taken yet
   */
  update(seq: bigint, json: Uint8Array): void {
    const { steps } = this
    if (!steps) return
    if (this.#state === 'current' && (this.#next || this.#offered)) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'an update of a view before the last was taken' })
    }
    this.cancelWait()
    this.#state = 'current'
    this.#isForAnother = false
    this.#offer({ seq: Number(seq), json, onTaken: () => steps.taken(seq) })
  }

  /** Drops an update of the lost Follow that was not sent: it is old. */
  lost(): void {
    this.steps = undefined
    if (this.#state === 'current') this.#state = 'lost'
    this.#dropNext()
  }

  /** Reports to the viewer that its last update is old. */
  markStale({ at, since, why }: { at: number; since: number; why: string }): void {
    if (this.#state !== 'lost') return
    this.#state = 'stale'
    const seq = this.#lastSeq + 1
    const update: Update = { seq, at, state: { is: 'stale', since, why } }
    this.#offer({ seq, json: Buffer.from(JSON.stringify(update)), onTaken: () => undefined })
  }

  /** Ends the view and reports the error to the viewer. */
  fail(error: KasError): void {
    if (this.#state === 'ended') return
    this.#end()
    this.#owner.closed(this)
    this.#viewer.ended(error)
  }

  #end(): void {
    this.#state = 'ended'
    this.#countAsked(-this.#askedBytes)
    this.#onEnd()
    this.cancelWait()
    this.#dropNext()
    this.#leave()
  }

  #countAsked(change: number): void {
    this.#askedBytes += change
    if (change > 0) this.#viewer.memory?.take(change)
    else this.#viewer.memory?.give(-change)
  }

  #leave(): void {
    if (!this.steps) return
    this.steps.close()
    this.#owner.dropped(this.steps.number)
    this.steps = undefined
  }

  #dropNext(): void {
    if (this.#next) this.#owner.unsent(-this.#next.json.length)
    this.#next = undefined
  }

  #offer(offered: Offered): void {
    this.#dropNext()
    this.#owner.unsent(offered.json.length)
    this.#next = offered
    if (!this.#offered) void this.#send()
  }

  async #send(): Promise<void> {
    for (let offered = this.#next; offered; offered = this.#next) {
      this.#offered = offered
      this.#next = undefined
      this.#lastSeq = offered.seq
      try {
        await this.#viewer.update(offered.json)
        offered.onTaken()
      } catch (error) {
        this.fail(KasError.from(error))
      } finally {
        this.#offered = undefined
        this.#owner.unsent(-offered.json.length)
      }
    }
  }
}
