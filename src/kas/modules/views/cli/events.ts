import { withDeadline } from '../../../../lib/deadline.ts'
import { printable } from '../../../../lib/printable.ts'
import { type EventRow, type Scope, viewsBounds } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { UsageError } from '../../../command/command.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { outputOf } from '../../../command/output.ts'
import { textTable } from '../../../command/text-table.ts'
import { scopeOf } from './asked.ts'
import { folded } from './lines.ts'
import { eventView } from './output/program-view.ts'
import { printView } from './print-view.ts'
import { problemsOf } from './problems.ts'
import type { ShownView } from './shown-view.ts'
import { withSource } from './sources.ts'
import type { Layout } from './verdict-text.ts'
import { ViewClient } from './view-client.ts'
import type { ViewsContext } from './views-command.ts'

/** Namespaces of one view: an agent answers so many of its questions at a time. */
const maxNamespaces = 5
/** Time until all objects of an environment or an application are known, in ms. */
const answerMs = 30_000

/** Words for events, as in kubectl. */
export const eventNames: ReadonlySet<string> = new Set(['events', 'event', 'ev'])

/** Formats for events, which have no names. */
const outputs = ['table', 'wide', 'json', 'yaml'] as const

/** `kas get events`: events of any type, read from the API server as the caller, the latest first. */
export async function printEvents(context: ViewsContext): Promise<number> {
  outputOf(context.values, outputs)
  const { namespaces: named, ...group } = scopeOf(context.values) ?? {}
  const isOfGroup = Object.keys(group).length > 0
  const members = isOfGroup
    ? await membersOf(context, { ...group, ...(named ? { namespaces: named } : {}) })
    : undefined
  if (members && members.problems.length > 0) {
    for (const problem of members.problems) context.io.stderr.write(`kas: ${problem}\n`)
    return 1
  }
  const namespaces = members ? [...members.namespaces] : (named ?? [''])
  if (namespaces.length > maxNamespaces) {
    throw new UsageError(
      `events: of at most ${maxNamespaces} namespaces at a time, and here are ${namespaces.length}: -n names them`,
    )
  }
  return await printEventsOf(context, namespaces, (event) => members?.has(event) ?? true)
}

function printEventsOf(
  context: ViewsContext,
  namespaces: readonly string[],
  isShown: (event: EventRow) => boolean,
): Promise<number> {
  const nodes = namespaces.map((namespace) => `n:${namespace}`)
  const scope: Scope | undefined = namespaces.includes('') ? undefined : { namespaces }
  const shown = (model: ShownView) => latestFirst(model, nodes).filter(isShown)
  return printView(context, {
    // for the root itself, only Warnings are shown
    query: { view: 'events', ...(scope ? { scope } : {}), limit: 1 },
    asked: { query: scope ? { scope } : {}, words: [], names: [] },
    opens: () => false,
    nodes,
    text: (model, layout) => eventsText(model, { nodes, events: shown(model) }, layout),
    program: eventView(nodes, { events: shown }),
    problems: (model) => {
      const refused = namespaces.filter((namespace) => model.refused.has(`n:${namespace}`))
      if (refused.length === 0 || model.state.refused) return []
      const where = refused.map((namespace) => namespace || 'all namespaces').join(', ')
      return [`events of ${where}: you may not list them, or the agent cannot ask for them`]
    },
    nothing: 'there are no events',
  })
}

function latestFirst(model: ShownView, nodes: readonly string[]): readonly EventRow[] {
  return nodes.flatMap((node) => model.eventsOf(node)).sort((one, other) => other.at - one.at)
}

interface Shown {
  readonly nodes: readonly string[]
  readonly events: readonly EventRow[]
}

/** Indent of a message that has its own lines, because the terminal has no room for it. */
const messageIndent = '    '
/** Least columns for the message behind the others; with less, it has its own lines. */
const leastMessage = 40

/** Returns one line per event. On a narrow terminal the object and the message of an event have lines of their own. */
function eventsText(
  model: ShownView,
  { nodes, events }: Shown,
  { paint, now, columns, hasHeaders = true }: Layout,
): string {
  if (events.length === 0) return ''
  const heads = ['NAMESPACE', 'LAST SEEN', 'TYPE', 'REASON', 'COUNT', 'OBJECT', 'MESSAGE']
  const table = [heads, ...events.map((event) => cells(event, now))]
  const whole = textTable(table).trimEnd().split('\n')
  const isNarrow = (whole[0] as string).length - (heads.at(-1) as string).length + leastMessage > columns
  const bare = table.map((row) => row.slice(0, -2))
  const [head = '', ...lines] = isNarrow ? textTable(bare).trimEnd().split('\n') : whole
  const more = nodes.reduce((sum, node) => sum + (model.pages.get(node)?.more ?? 0), 0)
  const below = (event: EventRow | undefined) => (event && isNarrow ? messageLines(event, columns) : [])
  return [
    ...(hasHeaders ? [paint.faint(head)] : []),
    ...lines.flatMap((line, i) => [line, ...below(events[i])]),
    ...(more > 0 ? [paint.faint(`… ${more} more, older or not read`)] : []),
  ]
    .map((line) => `${line}\n`)
    .join('')
}

function messageLines({ about: [kind, name], text }: EventRow, columns: number): string[] {
  return folded(printable([`${kind}/${name}`, text].filter(Boolean).join(': ')), columns, messageIndent)
}

function cells({ ns, about: [kind, name], type, reason, text, count, at }: EventRow, now: number): string[] {
  return [ns, ageText(at, now), type, reason, String(count), `${kind}/${name}`, text]
}

/** Objects of an environment or an application, once all of them are known. */
interface Members {
  readonly namespaces: ReadonlySet<string>
  /** sentences: reasons for which there are none, or not all of them */
  readonly problems: readonly string[]
  /** True if the event is about one of them. */
  has(event: EventRow): boolean
}

/** @throws ViewRefused, BadAnswer, Error: there is no answer in time */
async function membersOf(context: ViewsContext, scope: Scope): Promise<Members> {
  const endpoint = await endpointOf(context.values, context)
  const asked = (await withSource(scope, endpoint, answerMs)) ?? scope
  const query = { view: 'list', scope: asked, limit: viewsBounds.maxLimit } as const
  let found: Members | undefined
  const client = new ViewClient(context, endpoint, {
    query,
    opens: () => false,
    onChange: (model, isWhole) => {
      if (!isWhole) return false
      const rows = model.children('')
      const uids = new Set(rows.map(({ u }) => u))
      const { more = 0 } = model.pages.get('') ?? {}
      const tooMany =
        more > 0 ? [`it has ${rows.length + more} objects, too many to list their events: -n narrows it`] : []
      found = {
        namespaces: new Set(rows.flatMap(({ ns }) => ns ?? [])),
        problems: [...problemsOf(model, { query: { scope }, words: [], names: [] }), ...tooMany],
        has: ({ about: [, , uid] }) => uids.has(uid),
      }
      return true
    },
  })
  await withDeadline({ ms: answerMs, clock: context.clock }, (signal) => client.run(signal))
  if (!found) throw new Error(`no whole answer within ${answerMs / 1000} s`)
  return found
}
