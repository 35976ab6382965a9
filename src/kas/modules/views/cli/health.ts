import { withDeadline } from '../../../../lib/deadline.ts'
import { printable } from '../../../../lib/printable.ts'
import { type Scope, viewsBounds } from '../../../../proto/views-json.ts'
import { askKas, type KasRequest } from '../../../command/ask-kas.ts'
import { BadAnswer } from '../../../command/bad-answer.ts'
import { type Endpoint, endpointOf } from '../../../command/endpoint.ts'
import { dataText } from '../../../command/output.ts'
import { Unreached } from '../../../command/reach/unreached.ts'
import { asideText } from './aside-kinds.ts'
import { type Judgement, judge, unnamedNamespaces } from './gate.ts'
import { type GateOptions, gateFlags, gateHelp, readGate } from './gate-options.ts'
import { reportText } from './gate-report.ts'
import { cut, folded } from './lines.ts'
import { healthReport } from './output/health-report.ts'
import { problemsOf } from './problems.ts'
import { columnsOf } from './screen.ts'
import { isOpened, type ShownView } from './shown-view.ts'
import { withSource } from './sources.ts'
import { StableCode, unknown } from './stable-code.ts'
import { stateText } from './state-text.ts'
import { countsText } from './tree-summary.ts'
import { clockText, isWell, kindText, type Layout, Paint, reasonOf, rowText } from './verdict-text.ts'
import { ViewClient } from './view-client.ts'
import { isColoured, type ViewsContext, viewsCommand } from './views-command.ts'

/** Time for an agent that connects or lists its cluster, without `--wait`, in ms. */
const answerMs = 20_000
/** Time in ms after the given wait in which events and logs of failures are read. */
const evidenceMs = 5000
/** the least time for one question, in ms */
const minEvidenceMs = 100

const waitHint = 'kas health --wait 5m waits until it is healthy'

/** `kas health` */
export const health = viewsCommand({
  usage:
    'health [KIND/NAME... | -f FILE|DIR|-] [-n NAMESPACE | -A] [-l SELECTOR] [--wait TIME] [--stable TIME] [--ignore KIND|REASON|KIND/NAME]... [--addresses] [--no-fail-fast] [--logs LINES] [-o FORMAT]',
  summary: 'says whether it is healthy, and why not',
  help: gateHelp,
  options: gateFlags,
  outputs: ['table', 'json', 'yaml'],
  hints: { watch: waitHint, w: waitHint },
  async run(context) {
    const { values, positionals } = context
    const options = await readGate(positionals, values, context)
    const endpoint = await endpointOf(values, context)
    return await new Gate(context, options, endpoint).run()
  },
})

class Gate {
  readonly #context: ViewsContext
  readonly #options: GateOptions
  readonly #endpoint: Endpoint
  readonly #decided = new AbortController()
  readonly #code: StableCode
  #model: ShownView | undefined
  #judgement: Judgement | undefined
  #problems: readonly string[] = []
  /** reason for which there is no answer */
  #waitReason = 'the agent is still listing its cluster'
  /** namespaces of the environment, if there are several and the command line names none */
  #scattered: readonly string[] = []
  /** the last printed line of each row */
  readonly #printed = new Map<string, string>()

  constructor(context: ViewsContext, options: GateOptions, endpoint: Endpoint) {
    this.#context = context
    this.#options = options
    this.#endpoint = endpoint
    this.#code = new StableCode({ clock: context.clock, onStable: () => this.#decided.abort() }, options)
  }

  async run(): Promise<number> {
    const { clock } = this.#context
    const { waitMs = answerMs, asked } = this.#options
    const until = clock.now() + waitMs
    try {
      const scope = await withSource(asked.query.scope, this.#endpoint, waitMs)
      const client = this.#clientFor(scope)
      const ms = Math.max(0, until - clock.now())
      await withDeadline({ ms, clock, signals: [this.#decided.signal] }, (signal) => client.run(signal))
    } catch (error) {
      const isUnknown = error instanceof BadAnswer || (error instanceof Unreached && error.kind !== 'caller')
      if (!isUnknown) throw error
      return await this.#unreached(error.message)
    } finally {
      this.#code.end()
    }
    return await this.#end()
  }

  #clientFor(scope: Scope | undefined): ViewClient {
    const { asked, targets } = this.#options
    return new ViewClient(this.#context, this.#endpoint, {
      query: {
        view: targets ? 'list' : 'tree',
        ...asked.query,
        ...(scope ? { scope } : {}),
        limit: viewsBounds.maxLimit,
      },
      opens: isOpened,
      onChange: (model, isWhole) => this.#changed(model, isWhole),
      onLost: (reason) => {
        this.#model = undefined
        this.#code.now(unknown) // the last answer may be outdated
        this.#waitReason = reason
      },
      onWait: (reason) => {
        this.#waitReason = reason
        this.#say(reason)
      },
    })
  }

  #changed(model: ShownView, isWhole: boolean): boolean {
    this.#model = model
    const { waitMs, asked } = this.#options
    if (!isWhole) {
      this.#code.now(unknown)
      return false
    }
    const judgement = judge(model, this.#options)
    this.#judgement = judgement
    this.#problems = this.#problemsOf(model)
    if (this.#problems.length > 0) return true
    this.#scattered = unnamedNamespaces(model, this.#options)
    if (this.#scattered.length > 0) return true
    if (waitMs !== undefined) this.#sayChanges(model, judgement)
    this.#code.now(judgement.code, judgement.restarts)
    const isAwaited = judgement.absent.length > 0 && asked.query.objects !== undefined
    return waitMs === undefined && judgement.code !== 0 && !isAwaited
  }

  /**
   * Returns problems that waiting does not solve. A kind of a manifest may still appear, and an environment may still
   * get objects.
   */
  #problemsOf(model: ShownView): readonly string[] {
    const { asked } = this.#options
    const isOfFile = asked.query.objects !== undefined && asked.names.length === 0
    if (isOfFile) return model.state.refused ? problemsOf(model, { ...asked, words: [] }) : []
    const { refused, unknown: none } = model.state
    const isNotFollowed = (this.#judgement?.notFollowed.length ?? 0) > 0
    return refused || none || isNotFollowed ? problemsOf(model, { ...asked, names: [] }) : []
  }

  #sayChanges(model: ShownView, { judged, absent }: Judgement): void {
    const { clock } = this.#context
    const now = clock.now() + model.ahead
    const lines = new Map<string, string>()
    for (const { row, word, isBelow } of judged) {
      const name = `${isBelow ? 'below ' : ''}${rowText(row)}`
      const text = row.z ? `${row.z.reason}: ${row.z.text}` : reasonOf(row)
      lines.set(row.u, [new Paint(false).verdict(word), name].join(' ') + (text && !isWell(word) ? `: ${text}` : ''))
    }
    for (const { kind, name } of absent) lines.set(`absent ${kind}/${name}`, `${kindText(kind)}/${name} is not there`)
    for (const [id, line] of lines) if (this.#printed.get(id) !== line) this.#write(`${clockText(now, now)} ${line}`)
    for (const [id, line] of this.#printed) {
      if (!lines.has(id) && !id.startsWith('absent ')) this.#write(`${clockText(now, now)} gone: ${line}`)
    }
    this.#printed.clear()
    for (const [id, line] of lines) this.#printed.set(id, line)
  }

  async #unreached(reason: string): Promise<number> {
    const { io, clock, output } = this.#context
    io.stderr.write(`kas health: ${reason}\n`)
    this.#model = undefined
    this.#waitReason = reason
    if (output !== 'table')
      io.stdout.write(await dataText(this.#data(clock.now(), { code: unknown, problems: [] }), output))
    return unknown
  }

  async #end(): Promise<number> {
    const { io, values, clock, output } = this.#context
    const isScattered = this.#problems.length === 0 && this.#scattered.length > 0
    const problems = isScattered ? [scatteredText(this.#scattered)] : this.#problems
    for (const problem of problems) this.#say(problem)
    const code = isScattered ? unknown : problems.length > 0 ? 1 : this.#code.code
    const model = this.#model
    const layout: Layout = {
      paint: new Paint(isColoured(io)),
      now: clock.now() + (model?.ahead ?? 0),
      columns: columnsOf(io.stdout),
      isVerbose: values.verbose === true,
    }
    if (output !== 'table') io.stdout.write(await dataText(this.#data(layout.now, { code, problems }), output))
    if (problems.length > 0) return code
    if (output === 'table') await this.#report(model, layout)
    const hint = this.#hint(model)
    if (hint) this.#say(hint)
    return code
  }

  async #report(model: ShownView | undefined, layout: Layout): Promise<void> {
    const { stdout } = this.#context.io
    const judgement = this.#judgement
    if (!model || !judgement)
      return void stdout.write(printable(`unknown: no answer: ${this.#waitReason}`).concat('\n'))
    const aside = judgement.aside
      .map((one) => `${asideText(one, layout.now)}; what is shown of it may be old\n`)
      .join('')
    stdout.draw(`${stateText(model)}${aside}${headText(judgement, layout, this.#options)}`)
    for (const { kind, namespace, name } of judgement.absent) {
      stdout.write(
        printable(`○ ${namespace ? `${namespace}/` : ''}${kindText(kind)}/${name} is not there`).concat('\n'),
      )
    }
    const bad = judgement.judged.filter(({ word }) => !isWell(word))
    const { clock } = this.#context
    const until = clock.now() + evidenceMs
    const ask = (request: KasRequest) =>
      askKas(this.#endpoint, { ...request, timeoutMs: Math.max(minEvidenceMs, until - clock.now()) })
    for (const { kind, name } of judgement.notFollowed)
      this.#say(`${kindText(kind)}/${name} is not judged: its kind is not followed`)
    const report = await reportText(bad, { ask, layout }, this.#options)
    stdout.draw(report.replaceAll(/[^\n]+/g, (line) => cut(line, layout.columns)))
  }

  #data(now: number, { code, problems }: { code: number; problems: readonly string[] }) {
    const { agentId } = this.#endpoint
    const known = { model: this.#model, judgement: this.#model && this.#judgement }
    return healthReport({ agentId, exitCode: code, problems, now, reason: this.#waitReason, ...known })
  }

  /** Returns a hint why nothing was judged. */
  #hint(model: ShownView | undefined): string {
    if (!model || this.#judgement?.word !== undefined || this.#options.targets) return ''
    return problemsOf(model, this.#options.asked)[0] ?? ''
  }

  #say(text: string): void {
    const { stderr } = this.#context.io
    for (const line of folded(printable(`kas: ${text}`), columnsOf(stderr), '')) this.#write(line)
  }

  /** Writes one line, cut to the terminal. */
  #write(line: string): void {
    const { stderr } = this.#context.io
    stderr.write(`${cut(printable(line), columnsOf(stderr))}\n`)
  }
}

/** namespaces that a text names */
const maxNamespaces = 10

function scatteredText(namespaces: readonly string[]): string {
  const more = namespaces.length - maxNamespaces
  const named = `${namespaces.slice(0, maxNamespaces).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  return `the environment has objects in ${named}, where anyone who may write may label his own so: -n names its namespaces, -A takes all of them for its own`
}

function headText(
  { word, counts, absent }: Judgement,
  { paint }: Layout,
  { targets }: Pick<GateOptions, 'targets'>,
): string {
  if (word === undefined) return absent.length > 0 ? '' : 'unknown: nothing is there that you may list\n'
  const nothing = targets ? 'what is named is there' : 'unknown: nothing that is there has a verdict'
  const verdict = word === '' ? nothing : paint.verdict(word)
  return `${verdict} (${countsText(counts)})\n`
}
