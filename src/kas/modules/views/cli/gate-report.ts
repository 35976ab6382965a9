import * as z from 'zod'
import { builtIn, parseKindKey } from '../../../../kubernetes/kind.ts'
import { collectionPath, objectPath, withQuery } from '../../../../kubernetes/path.ts'
import { printable } from '../../../../lib/printable.ts'
import type { Cause, Row } from '../../../../proto/views-json.ts'
import type { askKas, KasRequest } from '../../../command/ask-kas.ts'
import { readAnswer } from '../../../command/bad-answer.ts'
import { causeLines } from './cause-text.ts'
import type { Judged } from './gate.ts'
import { fits, folded } from './lines.ts'
import { clockText, type Layout, rowText, sinceText } from './verdict-text.ts'

/** Roots of one cause that have a line each; the others share one line. */
const maxRoots = 10
/** Causes whose events and log lines are read. */
const maxCauses = 5
/** Events of a cause that are shown. */
const maxEvents = 5
/** lines of the terminal for one event; the middle of a longer one is left out */
const maxEventLines = 4
/** Time before a node became unready from which its events are shown, in ms; older ones have other causes. */
const beforeMs = 60_000
/** Events that are read for one cause. */
const maxEventsRead = 500
/** bytes of a log; a line may be long */
const maxLogBytes = 64 * 1024
const indent = '    '
/** characters of a line */
const maxLine = 500

export interface ReportComponents {
  /** asks kas as the caller */
  readonly ask: (request: KasRequest) => ReturnType<typeof askKas>
  readonly layout: Layout
}

/** Returns each cause once, with its unhealthy roots, its last Warnings and the last lines of its log. */
export async function reportText(
  judged: readonly Judged[],
  components: ReportComponents,
  { logLines }: { readonly logLines: number },
): Promise<string> {
  const byCause = new Map<string, Judged[]>()
  for (const one of judged) {
    const { z, u } = one.row
    const key = z ? JSON.stringify([z.kind, z.namespace, z.name, z.reason]) : u
    byCause.set(key, [...(byCause.get(key) ?? []), one])
  }
  const groups = [...byCause.values()]
  const evidence = await Promise.all(
    groups.map((group, i) => (i < maxCauses ? evidenceOf((group[0] as Judged).row, components, logLines) : [])),
  )
  return groups.flatMap((group, i) => [...headLines(group, components), ...(evidence[i] ?? []), '']).join('\n')
}

/** Returns the roots with their sign and first fact, as `kas tree` shows them; the first root with its cause. */
function headLines(judged: readonly Judged[], { layout }: ReportComponents): string[] {
  const { paint, now, columns } = layout
  const lines = judged.slice(0, maxRoots).flatMap((one, i) => {
    const { z, f: [fact = ''] = [] } = one.row
    const since = i === 0 && z ? sinceText(z, now) : ''
    const own = `${paint.shape(one.word)} ${nameText(one)}`
    const line = [own, printable(fact), paint.faint(since)].filter(Boolean).join('  ')
    return fits(line, columns) ? [line] : folded([own, printable(fact), since].filter(Boolean).join('  '), columns, '')
  })
  const others = judged.slice(maxRoots).map(nameText).join(', ')
  const first = judged[0]?.row
  return [
    ...lines,
    ...folded(others && `and ${others}`, columns, ''),
    ...(first ? causeLines(first, layout, indent) : []),
  ]
}

const nameText = ({ row, isBelow }: Judged) => `${isBelow ? 'below ' : ''}${rowText(row)}`

async function evidenceOf({ z }: Row, components: ReportComponents, logLines: number): Promise<string[]> {
  if (!z) return []
  const [events, log] = await Promise.all([
    eventLines(z, components),
    logLines > 0 ? logOf(z, components, logLines) : [],
  ])
  return [...events, ...log]
}

const eventList = z.object({
  items: z.array(
    z.object({
      reason: z.string().default(''),
      message: z.string().default(''),
      count: z.number().optional(),
      series: z.object({ count: z.number().optional() }).nullish(),
      lastTimestamp: z.string().nullish(),
      eventTime: z.string().nullish(),
      metadata: z.object({ creationTimestamp: z.string().nullish() }),
    }),
  ),
})

/** True for the name of a namespace or Pod: another text from an agent must not get into a request. */
const isName = (text: string) => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text)

interface EventText {
  /** in ms since 1970; NaN: not known */
  readonly at: number
  readonly reason: string
  readonly text: string
  readonly times: number
}

async function eventLines(cause: Cause, { ask, layout }: ReportComponents): Promise<string[]> {
  const { kind, namespace } = cause
  if (namespace !== '' && !isName(namespace)) return []
  const { now, columns } = layout
  try {
    const warnings = await eventsOf(cause, 'Warning', ask)
    // a claim that no provisioner handles has only Normal events
    const isNormal = warnings.length === 0 && kind === 'PersistentVolumeClaim'
    const events = isNormal ? await eventsOf(cause, 'Normal', ask) : warnings
    return events.slice(-maxEvents).flatMap(({ at, reason, text, times }) => {
      const head = `${clockText(at, now)} ${reason}${times > 1 ? ` (${times} times)` : ''}:`
      const most = Math.min(maxLine, maxEventLines * (columns - indent.length - 2) - head.length)
      return folded(printable(`${head} ${middleOut(text, most)}`), columns, indent)
    })
  } catch (error) {
    return [`${indent}its events cannot be read: ${lineText((error as Error).message)}`]
  }
}

/** Returns events, the latest last. Events with the same text are one, also if only the names of their Pods differ. */
async function eventsOf(
  { kind, namespace, name, since, atLeast }: Cause,
  type: 'Warning' | 'Normal',
  ask: ReportComponents['ask'],
): Promise<readonly EventText[]> {
  const fields = [`involvedObject.kind=${parseKindKey(kind).kind}`, `involvedObject.name=${name}`, `type=${type}`]
  // events of cluster-scoped objects are in this namespace
  const collection = collectionPath(builtIn.events, namespace || 'default')
  const path = withQuery(collection, { fieldSelector: fields.join(','), limit: maxEventsRead })
  const { items } = readAnswer(eventList, await ask({ method: 'GET', path }))
  const texts = items
    .map(({ reason, message, count, series, lastTimestamp, eventTime, metadata }) => ({
      at: Date.parse(lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? ''),
      reason,
      text: message.replace(/^\(combined from similar events\): /, ''),
      times: series?.count ?? count ?? 1,
    }))
    .filter(({ at }) => kind !== 'Node' || since === undefined || atLeast || !(at < since - beforeMs))
    .sort((one, other) => (one.at || 0) - (other.at || 0))
  const byText = new Map<string, EventText>()
  for (const one of texts) {
    const key = JSON.stringify([one.reason, one.text.replaceAll(madeName, '')])
    const times = one.times + (byText.get(key)?.times ?? 0)
    byText.delete(key)
    byText.set(key, { ...one, times })
  }
  return [...byText.values()]
}

/** The suffix that the API server makes for `generateName`: five characters, none of them a vowel. */
const madeName = /-[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])/g

/** Text that a kubelet returns as the log of a container that it has removed. */
const isRemoved = /^(?:unable to retrieve container logs for|failed to try resolving symlinks in path) [^\n]*$/

/**
 * Reads the end of a log if the cause's next step is to read one. It is the log of the previous container; if that is
 * not kept, the log of the container that ended last.
 */
async function logOf(
  { kind, namespace, name: pod, next }: Cause,
  { ask }: ReportComponents,
  lines: number,
): Promise<string[]> {
  const [isLog, container, previous] = / logs \S+(?: -c (\S+))?(?:.* (--previous))?/.exec(next) ?? []
  if (!isLog || kind !== 'Pod' || !isName(namespace) || !isName(pod)) return []
  const read = async (isPrevious: boolean) => {
    const log = objectPath(builtIn.pods, { namespace, name: pod, subresource: 'log' })
    const query = { container, tailLines: lines, limitBytes: maxLogBytes, previous: isPrevious || undefined }
    const path = withQuery(log, query)
    const text = (await ask({ method: 'GET', path, accept: 'text/plain, */*' })).trimEnd()
    if (isRemoved.test(text)) throw new Error(text)
    return { text, isPrevious }
  }
  try {
    const asked = read(previous !== undefined)
    // the container has ended and is not restarted yet: the kept log is its own
    const { text, isPrevious } = await (previous
      ? asked.catch((error) => read(false).catch(() => Promise.reject(error)))
      : asked)
    if (text === '') return []
    const head = `${indent}last lines of ${printable(`${pod}${container ? `, container ${container}` : ''}`)}${isPrevious ? ', before its last start' : ''}:`
    return [
      head,
      ...text
        .split('\n')
        .slice(-lines)
        .map((line) => `${indent}  ${lineText(line)}`),
    ]
  } catch (error) {
    return [`${indent}its log cannot be read: ${lineText((error as Error).message)}`]
  }
}

/** Returns the beginning and the end, where the reason usually is. */
function middleOut(text: string, most: number): string {
  if (text.length <= most) return text
  const half = Math.max(1, Math.floor((most - 3) / 2))
  return `${text.slice(0, half)} … ${text.slice(-half)}`
}

function lineText(text: string): string {
  return printable(text.length > maxLine ? `${text.slice(0, maxLine)}…` : text)
}
