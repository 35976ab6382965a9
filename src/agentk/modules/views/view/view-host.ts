import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type Hold, type RoomUser, SharedRoom } from '../../../../lib/shared-room.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { Caller } from '../../../caller.ts'
import type { AskEvents } from '../access/asked-events.ts'
import { PresentFeed, PresentKinds } from '../access/present-kinds.ts'
import { maxNamespacesAsked, type Wanted } from '../access/review-plan.ts'
import type { Access, Reviews } from '../access/reviews.ts'
import type { FollowStates, ReadonlyEvents, ReadonlyRecords, Visibility } from '../store/record.ts'
import { Selections, type SelectionsOptions } from '../store/selections.ts'
import { TimeSlices } from '../store/time-slices.ts'
import { Forests, type ForestsOptions } from '../tree/forests.ts'
import { type ReadQuery, readQuery } from '../tree/query.ts'
import type { VerdictSide } from '../tree/severity.ts'
import { EventsView } from './events-view.ts'
import { ForestView } from './forest-view.ts'
import { GraphView } from './graph-view.ts'
import type { Problems } from './problems.ts'
import type { View } from './view.ts'
import { type CountedView, ViewLimits, type ViewLimitsOptions, viewLimitsDefaults } from './view-limits.ts'
import { type SeenStates, seenStates, viewState } from './view-state.ts'

/** States of kinds come many at once: all of them are read at whole multiples of it. ms */
const statesPauseMs = 50
/** After this time, views no longer count as incomplete because of a kind that is never listed. ms */
const firstListMs = 60_000
/** Rows that a viewer has from another pod stay this long at most, within the minute for which a right counts. ms */
const maxWaitMs = 30_000

/** A view of named objects waits this long for its caller's rights, which may be small and in many namespaces. ms */
const rightsPatienceMs = 10_000

/** Characters of a node's id; names and kinds of Kubernetes are far shorter. */
const maxIdLength = 2048

export interface ViewOut {
  /** @param json - one value, as in src/proto/views-json.ts; the next one follows once it was `taken` */
  update(seq: number, json: Uint8Array): void
  /** Last call. */
  ended(error: KasError): void
}

export interface WantedView {
  readonly caller: Caller
  /** caller in whose share the view counts */
  readonly viewer: RoomUser
  /** JSON */
  readonly query: Uint8Array
  /** the viewer has rows from before, which stay until kinds are listed */
  readonly resumes?: boolean
  /** old denials are asked again before anything is shown */
  readonly fresh?: boolean
}

/** Calls that a viewer makes. */
export type OpenView = Pick<View, 'page' | 'taken' | 'close'>

export interface ViewHostComponents {
  readonly records: ReadonlyRecords
  readonly states: FollowStates
  readonly events: ReadonlyEvents
  readonly reviews: Pick<Reviews, 'open'>
  /** default: none */
  readonly problems?: Pick<Problems, 'of' | 'onChange'>
  /** ms since 1970 */
  readonly clock: Clock
  /** default: its own */
  readonly turns?: TimeSlices
}

export interface ViewHostOptions {
  /** system whose verdict orders and counts; default: Argo CD's */
  readonly verdict?: VerdictSide
  readonly limits?: ViewLimitsOptions
  readonly forests?: ForestsOptions
  readonly selections?: SelectionsOptions
}

interface Opened extends CountedView {
  readonly caller: Caller
  readonly place: Hold
  readonly query: ReadQuery
  readonly view: View
  readonly openedAt: number
  readonly out: ViewOut
  access: Access | undefined
  visibility: Visibility | undefined
  /** nothing is sent while it is set */
  isWaiting: boolean
  /** set once they were known: later questions do not change what was sent */
  areRightsKnown: boolean
  /** the view is not shown as live before its rights are known */
  awaitsRights: boolean
  cancelPatience: () => void
}

/**
 * All views of one agent's cluster: each caller sees the records that it may list, and is notified of their changes.
 */
export class ViewHost {
  readonly #components: ViewHostComponents
  readonly #forests: Forests
  readonly #turns: TimeSlices
  readonly #selections: Selections
  readonly #present: PresentKinds
  readonly #feed: PresentFeed
  readonly #opened = new Set<Opened>()
  readonly #room: SharedRoom
  readonly #limits: ViewLimits
  readonly #unsubscribe: (() => void)[]
  #isFirstList = true
  /** views that resume wait for the first list */
  #holds = true
  #statesDue: { readonly at: number; readonly cancel: () => void } | undefined
  readonly #cancels: readonly (() => void)[]

  constructor(
    components: ViewHostComponents,
    { verdict = 'argo', limits = viewLimitsDefaults, ...options }: ViewHostOptions = {},
  ) {
    const { records, states, events, clock } = components
    this.#components = components
    this.#present = new PresentKinds(clock)
    this.#room = new SharedRoom({ name: 'views_at_agent', limit: limits.maxViews })
    this.#limits = new ViewLimits(this.#opened, limits)
    const { turns = new TimeSlices(clock) } = components
    this.#turns = turns
    this.#forests = new Forests({ records, clock, turns, side: verdict }, options.forests)
    this.#selections = new Selections({ records, turns }, options.selections)
    const feed = new PresentFeed({ records, states, events, present: this.#present })
    this.#feed = feed
    this.#unsubscribe = [
      records.onChange((change) => {
        // it also changes states: they are sent at a time that depends on nothing else
        if (feed.change(change)) this.#statesMayDiffer()
        this.#forests.change(change)
        this.#selections.change(change)
      }),
      events.onChange((change) => feed.eventChange(change)),
      ...[states, events.states].map((each) => each.onChange(() => this.#statesMayDiffer())),
      components.problems?.onChange(() => this.#statesMayDiffer()) ?? (() => undefined),
    ]
    this.#cancels = [
      clock.after(firstListMs, () => this.#firstListEnded()),
      clock.after(maxWaitMs, () => this.#letGo()),
    ]
    this.#readStates()
  }

  /**
   * @throws KasError BAD_REQUEST: the query cannot be used; TOO_MANY_STREAMS: too many views, or too many callers;
   * FORBIDDEN: the caller has no name
   */
  open(wanted: WantedView, out: ViewOut): OpenView {
    let opened: Opened | undefined
    const end = (reason: KasError) => opened && this.#end(opened, reason)
    const { viewer } = wanted
    const place = this.#room.enter(viewer, { what: 'views', end })
    try {
      opened = this.#begun(wanted, { place, user: viewer.userKey ?? viewer.key }, out)
    } catch (error) {
      place.leave()
      throw error
    }
    const view = opened
    this.#opened.add(view)
    return {
      page: (node, limit, offset = 0) => this.#page(view, node, limit, offset),
      taken: (seq) => view.view.taken(seq),
      close: () => this.#close(view),
    }
  }

  #begun(
    { caller, query, resumes = false, fresh = false }: WantedView,
    { place, user }: Pick<Opened, 'place' | 'user'>,
    out: ViewOut,
  ): Opened {
    const read = readQuery(query)
    const { clock, reviews } = this.#components
    const opened: Opened = {
      caller,
      place,
      user,
      query: read,
      view: this.#makeView(read, () => opened, user, out),
      openedAt: clock.now(),
      out,
      access: undefined,
      visibility: undefined,
      isWaiting: resumes && this.#holds,
      areRightsKnown: false,
      awaitsRights: fresh || read.objects !== undefined || read.graph !== undefined,
      cancelPatience: () => undefined,
    }
    opened.cancelPatience = clock.after(rightsPatienceMs, () => {
      opened.awaitsRights = false
      this.#setState(opened)
    })
    const { namespaces } = read
    const what = read.view === 'events' ? 'events' : 'objects'
    const wanted: Wanted = { what, namespaces, withCluster: read.view === 'graph', isFresh: fresh }
    const onVisibility = (visibility: Visibility) => this.#show(opened, visibility)
    const onWhole = () => this.#setState(opened)
    opened.access = reviews.open(caller, wanted, this.#present, { onVisibility, onWhole })
    return opened
  }

  /** Ends all views, without notice. */
  close(): void {
    for (const opened of [...this.#opened]) this.#close(opened)
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#statesDue?.cancel()
    for (const cancel of this.#cancels) cancel()
  }

  #page(opened: Opened, node: string, limit: number, offset: number): void {
    if (!this.#opened.has(opened)) return
    const { maxOffset } = viewsBounds
    if (node.length > maxIdLength) this.#refuse(opened, `no node has an id of ${node.length} characters`)
    else if (offset > maxOffset) this.#refuse(opened, `a page begins after ${maxOffset} rows at most`)
    else opened.view.page(node, limit, offset)
  }

  #refuse(opened: Opened, detail: string): void {
    this.#end(opened, new KasError({ code: 'BAD_REQUEST', detail }))
  }

  #makeView(query: ReadQuery, opened: () => Opened, user: string, out: ViewOut): View {
    const { clock, records, states, events } = this.#components
    const [limits, turns, selections, forests] = [this.#limits, this.#turns, this.#selections, this.#forests]
    const send = (seq: number, json: Uint8Array) => out.update(seq, json)
    // an update that is due when states are read includes them, in either order
    const onDue = () => {
      if (this.#statesDue && this.#statesDue.at <= clock.now()) this.#readStates()
    }
    if (query.view === 'events') {
      const ask: AskEvents = async (...asked) => await opened().access?.events(...asked)
      return new EventsView({ clock, turns, events, ask, mayAsk: () => limits.mayAsk(user), onDue, send }, query)
    }
    const { graph } = query
    if (graph) {
      const { maxVertices, maxArcs } = viewsBounds
      const most = {
        maxVertices: () => limits.rowsFor(opened(), maxVertices),
        maxArcs: () => Math.min(maxArcs, limits.linksFor(opened())),
      }
      const on = {
        onDue,
        onKinds: () => this.#setState(opened()),
        failed: (error: KasError) => this.#end(opened(), error),
      }
      return new GraphView({ clock, turns, records, states, forests, user, ...most, ...on, send }, { ...query, graph })
    }
    const bounds = { maxRows: () => limits.rowsFor(opened()), maxLinks: () => limits.linksFor(opened()) }
    return new ForestView({ clock, records, selections, forests, user, ...bounds, onDue, send }, query)
  }

  #show(opened: Opened, visibility: Visibility): void {
    const isSame = opened.visibility?.key === visibility.key
    try {
      if (!isSame) this.#limits.checkVisibility(opened, visibility)
    } catch (error) {
      this.#end(opened, KasError.from(error))
      return
    }
    opened.visibility = visibility
    this.#setState(opened)
    if (isSame || opened.isWaiting) return
    this.#begin(opened, visibility)
  }

  #begin(opened: Opened, visibility: Visibility): void {
    try {
      opened.view.show(visibility)
    } catch (error) {
      this.#end(opened, KasError.from(error))
    }
  }

  #end(opened: Opened, error: KasError): void {
    this.#close(opened)
    opened.out.ended(error)
  }

  #close(opened: Opened): void {
    if (!this.#opened.delete(opened)) return
    const { view, access, place } = opened
    place.leave()
    opened.cancelPatience()
    access?.close()
    view.close()
  }

  #statesMayDiffer(): void {
    const { clock } = this.#components
    if (this.#statesDue) return
    const waitMs = statesPauseMs - (clock.now() % statesPauseMs)
    this.#statesDue = { at: clock.now() + waitMs, cancel: clock.after(waitMs, () => this.#readStates()) }
  }

  #readStates(): void {
    this.#statesDue?.cancel()
    this.#statesDue = undefined
    const all = [...this.#components.states.all()]
    this.#feed.noteStates()
    if (all.length > 0 && all.every(([, { is }]) => is !== 'syncing')) this.#firstListEnded()
    this.#setStates()
  }

  #firstListEnded(): void {
    if (!this.#isFirstList) return
    this.#isFirstList = false
    this.#letGo()
    this.#setStates()
  }

  /** Lets what is known now replace what viewers have from before. */
  #letGo(): void {
    this.#holds = false
    for (const opened of [...this.#opened]) {
      if (!opened.isWaiting) continue
      opened.isWaiting = false
      if (opened.visibility) this.#begin(opened, opened.visibility)
    }
  }

  #setStates(): void {
    const seen = new Map<string, SeenStates>()
    for (const opened of this.#opened) this.#setState(opened, seen)
  }

  /** @param known - states of this moment, by rights and scope */
  #setState(opened: Opened, known = new Map<string, SeenStates>()): void {
    const { query, view, visibility, openedAt, access, caller } = opened
    if (!visibility) return
    if (access?.isWhole) opened.areRightsKnown = true
    if (opened.areRightsKnown) opened.awaitsRights = false
    const { namespaces } = query
    const isOfEvents = query.view === 'events'
    const states = isOfEvents ? this.#components.events.states : this.#components.states
    const problem = access?.problem || (access?.hasTooManyNamespaces ? tooManyNamespaces : '')
    const isFirstList = isOfEvents ? [...states.all()].length === 0 : this.#isFirstList
    const key = `${isOfEvents} ${visibility.key} ${query.namespacesKey}`
    const seen = known.get(key) ?? seenStates({ states, visibility, namespaces, present: this.#present })
    known.set(key, seen)
    const { areRightsKnown, awaitsRights } = opened
    const rights = { visibility, caller, areRightsKnown, awaitsRights }
    const isFollowed = (kind: string) => [...states.all()].some(([one]) => one.key === kind)
    const problems = this.#components.problems?.of(seen.map(([{ key }]) => key))
    const { kinds = [] } = view
    const state = viewState({ seen, query, isFirstList, problem, openedAt, isFollowed, kinds, ...rights })
    view.setState({ ...state, ...problems })
  }
}

const tooManyNamespaces = `there are more than ${maxNamespacesAsked} namespaces: those that are to be shown must be named in the scope`
