import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { FollowRequestSchema } from '../../../../proto/gen/views_pb.ts'
import { callerMessage } from '../../../agent-caller.ts'
import type { WantedView } from './view.ts'

type Step = NonNullable<MessageInitShape<typeof FollowRequestSchema>['step']>

export interface PageWanted {
  /** 0: closed */
  readonly limit: number
  /** rows before the first row of the page */
  readonly offset: number
}

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/**
 * Requests to an agent on one Follow. A step is encoded when the stream asks for it, and views take turns. So a slow
 * agent gets the latest requests of the viewers, not a queue.
 */
export class FollowSteps implements AsyncIterable<Uint8Array> {
  readonly #turns = new Set<ViewSteps>()
  #lastNumber = 0
  #hasEnded = false
  #wake: (() => void) | undefined

  /** @param resumes - the viewer has rows from before, with the same permissions */
  open(
    wanted: WantedView,
    { pages, resumes }: { pages: ReadonlyMap<string, PageWanted>; resumes: boolean },
  ): ViewSteps {
    const changed = (own: ViewSteps) => {
      if (own.isDue) this.#due(own)
      else this.#turns.delete(own) // otherwise steps pile up for an agent that does not read
    }
    const steps = new ViewSteps(++this.#lastNumber, { ...wanted, resumes }, pages, changed)
    this.#due(steps)
    return steps
  }

  /** Views that were opened so far. */
  get opened(): number {
    return this.#lastNumber
  }

  /** Views that wait for their turn. */
  get waiting(): number {
    return this.#turns.size
  }

  /** Ends the stream. */
  end(): void {
    this.#hasEnded = true
    this.#turns.clear()
    this.#wake?.()
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return {
      next: () => this.#next(),
      return: () => {
        this.end()
        return Promise.resolve(end)
      },
    }
  }

  #due(steps: ViewSteps): void {
    if (this.#hasEnded) return
    this.#turns.add(steps)
    this.#wake?.()
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    while (!this.#hasEnded) {
      const [first] = this.#turns
      if (first) {
        this.#turns.delete(first)
        const step = first.take()
        if (first.isDue) this.#turns.add(first) // behind the others
        if (step) return { value: encode(first.number, step), done: false }
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
    return end
  }
}

type Opened = WantedView & { readonly resumes: boolean }

/** Next steps of one view. */
export class ViewSteps {
  /** number of the view on this Follow */
  readonly number: number
  #open: Opened | undefined
  readonly #pages: Map<string, PageWanted>
  /** nodes that are open at the agent */
  readonly #known = new Set<string>()
  #taken: bigint | undefined
  /** `due`: the agent knows the view, and its close was not sent yet */
  #close: 'no' | 'due' | 'done' = 'no'
  readonly #onChange: (steps: ViewSteps) => void

  constructor(
    number: number,
    open: Opened,
    pages: ReadonlyMap<string, PageWanted>,
    onChange: (steps: ViewSteps) => void,
  ) {
    this.number = number
    this.#open = open
    this.#pages = new Map(pages)
    this.#onChange = onChange
  }

  get isDue(): boolean {
    if (this.#close !== 'no') return this.#close === 'due'
    return this.#open !== undefined || this.#pages.size > 0 || this.#taken !== undefined
  }

  /** Replaces an earlier request for the node. A close is not sent if the agent does not know the node. */
  page(node: string, wanted: PageWanted): void {
    if (this.#close !== 'no') return
    this.#pages.delete(node)
    if (wanted.limit > 0 || this.#known.has(node)) this.#pages.set(node, wanted)
    this.#onChange(this)
  }

  taken(seq: bigint): void {
    if (this.#close !== 'no') return
    this.#taken = seq
    this.#onChange(this)
  }

  /** Closes the view: no other step is sent, and none at all if the agent does not know the view. */
  close(): void {
    if (this.#close !== 'no') return
    this.#close = this.#open ? 'done' : 'due'
    this.#onChange(this)
  }

  /** Sends no close: the view has ended at the agent. */
  drop(): void {
    this.#close = 'done'
    this.#onChange(this)
  }

  /** @returns undefined: there is no step */
  take(): Step | undefined {
    if (this.#close !== 'no') {
      const isDue = this.#close === 'due'
      this.#close = 'done'
      return isDue ? { case: 'close', value: {} } : undefined
    }
    if (this.#open) return this.#takeOpen(this.#open)
    const [page] = this.#pages
    if (page) {
      const [node, { limit, offset }] = page
      this.#pages.delete(node)
      if (limit > 0) this.#known.add(node)
      else this.#known.delete(node)
      return { case: 'page', value: { node, limit, offset } }
    }
    if (this.#taken === undefined) return undefined
    const seq = this.#taken
    this.#taken = undefined
    return { case: 'taken', value: { seq } }
  }

  #takeOpen({ caller, as, query, resumes, fresh = false }: Opened): Step {
    this.#open = undefined
    return { case: 'open', value: { caller: callerMessage(caller, as), query, resumes, fresh } }
  }
}

function encode(view: number, step: Step): Uint8Array {
  return toBinary(FollowRequestSchema, create(FollowRequestSchema, { view, step }))
}
