import { withDeadline } from '../../../../lib/deadline.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Query, Row } from '../../../../proto/views-json.ts'
import { askKas, type KasRequest } from '../../../command/ask-kas.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { Pager, pagerOf } from '../../../command/pager.ts'
import type { Asked } from './asked.ts'
import { EndingNamespaces } from './ending-namespaces.ts'
import { ProgramOutput } from './output/program-output.ts'
import type { ProgramView } from './output/program-view.ts'
import { problemsOf } from './problems.ts'
import { Screen } from './screen.ts'
import type { ShownView } from './shown-view.ts'
import { withSource } from './sources.ts'
import { notFollowedText, stateText } from './state-text.ts'
import { type Layout, Paint } from './verdict-text.ts'
import { ViewClient } from './view-client.ts'
import { isColoured, type ViewsContext } from './views-command.ts'

/**
 * Time for a whole answer, in ms; a cluster that is still being listed, or an agent that connects, is reported
 * meanwhile.
 */
const answerMs = 30_000
/** Period in which ages on a screen are updated, in ms. */
const tickMs = 1000
/** Exit code after SIGINT, as in a shell. */
const interrupted = 130

export interface PrintedView {
  readonly query: Query
  readonly asked: Asked
  readonly opens: (row: Row) => boolean
  /** pages that are requested from the start, as a whole, instead of children */
  readonly nodes?: readonly string[]
  /** returns lines, each with its end; empty: there is nothing to show. `ending`: rows of the namespaces below */
  readonly text: (model: ShownView, layout: Layout, ending: readonly Row[]) => string
  /** namespaces whose own row is shown, too, while they are being deleted */
  readonly namespaces?: readonly string[]
  /** output for programs, instead of the text */
  readonly program: ProgramView
  /** returns parts of a whole view that cannot be shown, beside refused ones */
  readonly problems?: (model: ShownView) => readonly string[]
  /** text instead of rows */
  readonly nothing: string
  /** true: output for people goes through a pager, if there is one */
  readonly isPaged?: boolean
}

/**
 * Prints a view once it is whole, or with `--watch` each change of it.
 *
 * @returns the exit code: 1 also with a problem. @throws ViewRefused
 */
export async function printView(context: ViewsContext, printed: PrintedView): Promise<number> {
  const endpoint = await endpointOf(context.values, context)
  const scope = await withSource(printed.query.scope, endpoint, answerMs)
  const query = { ...printed.query, ...(scope ? { scope } : {}) }
  const ask = (request: KasRequest) => askKas(endpoint, request)
  const ending = new EndingNamespaces({ clock: context.clock, ask }, printed.namespaces ?? [])
  const makeClient: MakeClient = (options) => new ViewClient(context, endpoint, options)
  return await new Printing(context, { ...printed, query }, { ending, agentId: endpoint.agentId }).run(makeClient)
}

type MakeClient = (options: ConstructorParameters<typeof ViewClient>[2]) => Pick<ViewClient, 'run'>

interface PrintingComponents {
  readonly ending: EndingNamespaces
  readonly agentId: string
}

class Printing {
  readonly #context: ViewsContext
  readonly #printed: PrintedView
  readonly #ending: EndingNamespaces
  readonly #agentId: string
  /** undefined: the output is for people */
  readonly #program: ProgramOutput | undefined
  readonly #pager: Pager | undefined
  readonly #screen: Screen
  readonly #paint: Paint
  readonly #isWatching: boolean
  readonly #ended = new AbortController()
  #model: ShownView | undefined
  #isWhole = false
  #problems: readonly string[] = []
  /** reason for which there is no whole answer yet */
  #waitReason = 'the cluster is still being listed'
  /** reason for which the connection was lost; undefined: it is there */
  #lost: string | undefined
  #hasPrintedNothing = false
  #isDone = false
  #isInterrupted = false
  #cancelTick = () => {}

  constructor(context: ViewsContext, printed: PrintedView, { ending, agentId }: PrintingComponents) {
    const { io, values, output } = context
    this.#context = context
    this.#printed = printed
    this.#ending = ending
    this.#agentId = agentId
    this.#isWatching = values.watch === true
    const isText = output === 'table' || output === 'wide'
    const options = { output, isWatching: this.#isWatching }
    this.#program = isText ? undefined : new ProgramOutput(io.stdout, printed.program, options)
    const command = printed.isPaged && !this.#isWatching && isText ? pagerOf(io) : undefined
    this.#pager = command === undefined ? undefined : new Pager(command, io)
    this.#screen = new Screen(this.#pager?.output ?? io.stdout, this.#isWatching && isText)
    this.#paint = new Paint(isColoured(io))
  }

  async run(makeClient: MakeClient): Promise<number> {
    const { io, clock } = this.#context
    const { query, opens, nodes } = this.#printed
    const client = makeClient({
      query,
      opens,
      nodes,
      onChange: (model, isWhole) => this.#changed(model, isWhole),
      onLost: (reason) => this.#wasLost(reason),
      onWait: (reason) => this.#waits(reason),
    })
    const run = (signal: AbortSignal) => client.run(signal)
    const { signal } = this.#ended
    const interrupt = () => {
      this.#isInterrupted = true
      this.#ended.abort()
    }
    if (this.#isWatching) io.once?.('SIGINT', interrupt)
    try {
      await (this.#isWatching ? run(signal) : withDeadline({ ms: answerMs, clock, signals: [signal] }, run))
    } finally {
      this.#ended.abort() // answers that are still to come are not shown
      this.#cancelTick()
      this.#screen.close()
      io.off?.('SIGINT', interrupt)
    }
    await this.#pager?.show()
    if (this.#isInterrupted) return interrupted
    if (this.#isDone && this.#model) await this.#program?.printList(this.#model, this.#now, this.#beside)
    if (this.#isDone) return this.#problems.length > 0 ? 1 : 0
    this.#warn(`no whole answer within ${answerMs / 1000} s: ${this.#waitReason}`)
    return 1
  }

  #changed(model: ShownView, isWhole: boolean): boolean {
    this.#model = model
    this.#isWhole = isWhole
    this.#lost = undefined
    if (isWhole) this.#judge(model)
    const isAwaited = isWhole && !this.#program && this.#ending.refresh(model, () => this.#answered(model))
    if (isAwaited && !this.#isWatching) return false
    if (isWhole || this.#isWatching) this.#show(model)
    this.#isDone = isWhole && !this.#isWatching
    return this.#isDone
  }

  /** Shows the view again after the namespaces that are being deleted were read. */
  #answered(model: ShownView): void {
    if (this.#isDone || this.#ended.signal.aborted || this.#model !== model) return
    this.#show(model)
    if (this.#isWatching) return
    this.#isDone = true
    this.#ended.abort()
  }

  /** Time by the agent's clock, in ms since 1970. */
  get #now(): number {
    return this.#context.clock.now() + (this.#model?.ahead ?? 0)
  }

  get #beside() {
    return { agentId: this.#agentId, problems: this.#problems, lost: this.#lost }
  }

  #judge(model: ShownView): void {
    const { asked, problems } = this.#printed
    const before = this.#problems
    const all = [...problemsOf(model, asked), ...(problems?.(model) ?? [])]
    this.#problems = all
    if (this.#screen.isFull) return
    for (const one of all) if (!before.includes(one)) this.#warn(one)
  }

  #show(model: ShownView): void {
    const { values, io, hasHeaders } = this.#context
    const { text, nothing } = this.#printed
    const isVerbose = values.verbose === true
    const now = this.#now
    if (this.#program) {
      if (this.#isWatching) this.#program.printChanges(model, now, { ...this.#beside, isWhole: this.#isWhole })
      return
    }
    const { columns, rows } = this.#screen
    const shown = text(model, { paint: this.#paint, now, columns, rows, isVerbose, hasHeaders }, this.#ending.rows)
    const problems = this.#screen.isFull ? this.#problems.map((one) => `${one}\n`).join('') : ''
    const isNothing = shown === '' && this.#problems.length === 0 && model.state.is !== 'syncing'
    if (isNothing && !this.#screen.isFull && !this.#hasPrintedNothing) io.stderr.write(`${nothing}\n`)
    this.#hasPrintedNothing = isNothing
    const empty = isNothing && this.#screen.isFull ? `${nothing}\n` : ''
    const last = this.#paint.faint(notFollowedText(model, isVerbose, now))
    this.#screen.show({
      text: stateText(model) + problems + shown + empty,
      last: shown === '' && !this.#screen.isFull ? '' : last,
    })
    this.#tick()
  }

  #tick(): void {
    if (!this.#screen.isFull) return
    this.#cancelTick()
    this.#cancelTick = this.#context.clock.after(tickMs, () => {
      if (this.#model && !this.#ended.signal.aborted) this.#show(this.#model)
    })
  }

  #wasLost(reason: string): void {
    this.#waitReason = reason
    this.#lost = reason
    if (this.#model && this.#program && this.#isWatching) this.#show(this.#model)
    if (this.#screen.isFull) this.#problems = [printable(`${reason}; what is shown may be old`)]
  }

  #waits(reason: string): void {
    this.#waitReason = reason
    const isOld = this.#model !== undefined && this.#isWatching
    // the reason is shown on the alternate screen already
    if (!this.#screen.isFull || !this.#model) this.#warn(isOld ? `${reason}; what is shown may be old` : reason)
  }

  #warn(text: string): void {
    this.#context.io.stderr.write(`kas: ${printable(text)}\n`)
  }
}
