import { type BuiltInKind, builtInKinds } from '../../../../kubernetes/kind-words.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type ViewState, viewsBounds } from '../../../../proto/views-json.ts'
import type { FollowStates, Visibility } from '../store/record.ts'
import type { TimeSlices } from '../store/time-slices.ts'
import type { Forest, ForestListener } from '../tree/forest.ts'
import type { Node } from '../tree/forest-node.ts'
import type { GraphQuery } from '../tree/graph-query.ts'
import { keyOf, type ReadQuery } from '../tree/query.ts'
import type { RunInTurns } from '../tree/scans.ts'
import type { Moved } from '../tree/visible-records.ts'
import { GraphIds } from './graph-ids.ts'
import { GraphKinds } from './graph-kinds.ts'
import { GraphNamespaces, namespaceKey } from './graph-namespaces.ts'
import type { GraphSelection } from './graph-selection.ts'
import { type Graph, GraphWalk } from './graph-walk.ts'
import { Page } from './pages.ts'
import { SentGraph } from './sent-graph.ts'
import { type Update, Updates } from './updates.ts'
import type { ForestViewing, View } from './view.ts'

export interface GraphViewComponents extends ForestViewing {
  readonly turns: TimeSlices
  readonly states: FollowStates
  /** vertices that the view may have now */
  readonly maxVertices: () => number
  /** arcs between them that it may have now */
  readonly maxArcs: () => number
  /** called when it is known which kinds the view asks for */
  readonly onKinds: () => void
  /** called when the view cannot be shown */
  readonly failed: (error: KasError) => void
}

type GraphWanted = ReadQuery & { readonly graph: GraphQuery }

/**
 * One subscription to a graph: objects of a forest, in order, as many as have room, and objects that they name. When
 * links have changed, the graph is made again, in turns, in a tenth of the time at most.
 */
export class GraphView implements View, ForestListener {
  readonly asked = 0
  readonly #components: GraphViewComponents
  readonly #query: GraphWanted
  readonly #updates: Updates
  readonly #ids = new GraphIds()
  readonly #sent = new SentGraph(this.#ids)
  readonly #cancels = new Set<() => void>()
  /** goes on where it was, even if rights change meanwhile */
  #reading: Generator<undefined, GraphSelection> | undefined
  #selection: GraphSelection | undefined
  #kinds: readonly BuiltInKind[] = []
  #visibility: Visibility | undefined
  readonly #namespaces: GraphNamespaces
  #forest: Forest | undefined
  #page: Page | undefined
  #graph: Graph | undefined
  /** all of `#graph` was sent */
  #isSent = true
  /** something may have changed since `#graph` was begun */
  #isOld = true
  #isRunning = false
  /** `#graph` is made for what the caller may list now */
  #isMade = false
  #isClosed = false

  constructor(components: GraphViewComponents, query: GraphWanted) {
    const { clock, onDue, send } = components
    this.#components = components
    this.#query = query
    this.#namespaces = new GraphNamespaces(components.records)
    const turn = () => this.#forest?.visible.run
    this.#updates = new Updates({ clock, turn, onDue, write: (update) => this.#write(update), send })
    void this.#load()
  }

  get rows(): number {
    return this.#sent.vertices
  }

  get links(): number {
    return this.#sent.arcs
  }

  get kinds(): readonly BuiltInKind[] {
    return this.#kinds
  }

  show(visibility: Visibility): void {
    this.#visibility = visibility
    this.#leaveForest() // first: the next forest takes its room
    this.#begin()
  }

  setState(state: ViewState): void {
    this.#updates.setState(state)
    this.#changed() // states decide which objects are known not to exist
  }

  page(node: string): void {
    this.#updates.pageRefused(node)
    this.#updates.request()
  }

  taken(seq: number): void {
    this.#updates.taken(seq)
  }

  close(): void {
    this.#isClosed = true
    this.#updates.close()
    this.#leaveForest()
  }

  touched(child: Node): void {
    this.#page?.touch(child)
  }

  rebundled(): void {
    this.#page?.scanAnew()
  }

  settled(): void {
    this.#changed()
  }

  moved({ isLinked }: Moved): void {
    if (isLinked) this.#changed()
  }

  /** Loads CEL, which graphs alone need, and begins to read the query. */
  async #load(): Promise<void> {
    try {
      const { GraphSelection } = await import('./graph-selection.ts')
      this.#reading = GraphSelection.read(this.#query.graph)
      if (!this.#isClosed) this.#begin()
    } catch (error) {
      if (!this.#isClosed) this.#components.failed(KasError.from(error))
    }
  }

  /** Begins once the caller's rights are known, and so whose turn it is. */
  #begin(): void {
    const [steps, visibility] = [this.#reading, this.#visibility]
    if (!steps || !visibility) return
    const { turns } = this.#components
    const run: RunInTurns = (step, done) => turns.run(visibility.key, step, done)
    if (!this.#selection)
      this.#run(run, steps, (selection) => {
        this.#selection = selection
        this.#kinds = builtInKinds.filter((kind) => asksFor(selection, kind))
        this.#components.onKinds()
        this.#begin()
      })
    else if (!this.#selection.isByLabels) this.#takeForest(this.#selection)
    else {
      const selection = this.#selection
      this.#run(run, this.#namespaces.choose(selection, visibility), () => this.#takeForest(selection))
    }
  }

  #takeForest(selection: GraphSelection): void {
    const { forests, user } = this.#components
    const visibility = this.#visibility as Visibility
    const isSelected = this.#namespaces.selectedBy(selection)
    const namespaces = selection.isByLabels ? this.#namespaces.chosen : []
    const query: ReadQuery = {
      ...this.#query,
      view: 'list',
      namespaces: undefined,
      selects: (record) => selection.selects(record, isSelected) && (!selection.hasRoots || selection.isRoot(record)),
      key: `${this.#query.key}\n${keyOf(namespaces)}`,
    }
    try {
      this.#forest = forests.take(visibility, query, user)
    } catch (error) {
      this.#components.failed(KasError.from(error))
      return
    }
    const { root, visible, listeners } = this.#forest
    listeners.add(this)
    const { maxVertices: limit } = viewsBounds
    const source = { node: root, kind: undefined }
    this.#page = new Page(visible.scans, source, { limit, offset: 0, sort: 'place' }, () => this.#changed())
    this.#changed()
  }

  #leaveForest(): void {
    for (const cancel of [...this.#cancels]) cancel()
    this.#cancels.clear()
    this.#isRunning = false
    this.#isMade = false
    this.#isOld = true
    this.#page?.close()
    this.#page = undefined
    const forest = this.#forest
    this.#forest = undefined
    forest?.listeners.delete(this)
    if (forest) this.#components.forests.release(forest, this.#components.user)
  }

  #changed(): void {
    this.#isOld = true
    this.#updates.request()
  }

  /** @param done - not called if the forest is left before */
  #run<T>(run: RunInTurns, steps: Generator<undefined, T>, done: (result: T) => void): void {
    let isOver = false
    let result: T
    let failure: unknown
    const step = () => {
      try {
        const next = steps.next()
        if (next.done) result = next.value
        return !next.done
      } catch (error) {
        failure = error
        return false
      }
    }
    const end = () => {
      isOver = true
      this.#cancels.delete(cancel)
      if (failure) this.#components.failed(KasError.from(failure))
      else done(result)
    }
    let ends: () => void = () => undefined
    const cancel = () => ends()
    this.#cancels.add(cancel)
    const started = run(step, end)
    if (!isOver) ends = started
  }

  #write(update: Update): boolean | undefined {
    const [forest, page, selection] = [this.#forest, this.#page, this.#selection]
    if (!forest?.isSettled || !page || !selection) return undefined
    page.update(this.#components.maxVertices())
    if (!page.isScanned) return undefined
    if ((this.#isSent || !this.#isMade) && this.#isOld && !this.#isRunning) this.#make(forest, page, selection)
    if (!this.#isMade || this.#isRunning || !this.#graph) return undefined
    if (this.#graph.isCut || page.size > page.order.length) update.mark('cut')
    this.#isSent = this.#sent.write(update, this.#graph)
    if (!this.#isSent) update.mark('more')
    return update.refusals() && this.#isSent && !this.#isOld
  }

  /** Makes the graph as it is now, in its turn; at once if nobody waits and it is small. */
  #make(forest: Forest, page: Page, selection: GraphSelection): void {
    const { run, scans } = forest.visible
    this.#isRunning = true
    this.#isOld = false
    let isAtOnce = true
    let end: (() => void) | undefined
    const cancel = () => end?.()
    this.#cancels.add(cancel)
    const cancelWait = scans.add(!this.#isMade, (ended) => {
      end = ended
      this.#run(run, this.#steps(forest, page, selection), (graph) => {
        this.#cancels.delete(cancel)
        ended()
        this.#made(graph, selection, isAtOnce)
      })
    })
    end ??= cancelWait
    isAtOnce = false
  }

  #made(graph: Graph | undefined, selection: GraphSelection, isAtOnce: boolean): void {
    this.#isRunning = false
    if (!graph) {
      this.#leaveForest()
      if (this.#visibility) this.#takeForest(selection)
      return
    }
    this.#graph = graph
    this.#isMade = true
    this.#isSent = false
    if (!isAtOnce) this.#updates.request()
  }

  /** @returns undefined: other namespaces are selected now */
  *#steps(forest: Forest, page: Page, selection: GraphSelection): Generator<undefined, Graph | undefined> {
    const { visible } = forest
    const { visibility, sees } = visible
    if (selection.isByLabels) {
      const changed = yield* this.#namespaces.choose(selection, visibility)
      if (changed.size > 0) return undefined
    }
    const { records, states, maxVertices, maxArcs } = this.#components
    this.#ids.keep((id) => this.#sent.has(id))
    const walk = new GraphWalk(
      {
        records,
        sees,
        kinds: new GraphKinds({ records, states, visibility }),
        selection,
        bothWays: this.#query.graph.bothWays,
        isSelected: this.#namespaces.selectedBy(selection),
        ids: this.#ids,
      },
      { maxVertices: maxVertices(), maxArcs: maxArcs() },
    )
    return yield* walk.steps(page.order.flatMap(({ record }) => record ?? []))
  }
}

/** True if the graph asks for the kind; Namespaces count if they are selected by their labels. */
function asksFor(selection: GraphSelection, kind: BuiltInKind): boolean {
  return selection.includesKind(kind) || (selection.isByLabels && kind.key === namespaceKey)
}
