import * as z from 'zod'
import { printable } from '../../../lib/printable.ts'
import type { Cause, Row } from '../../../proto/views-json.ts'
import { readAnswer } from '../bad-answer.ts'
import type { askKas, KasRequest } from './ask-kas.ts'
import { causeLines } from './cause-text.ts'
import type { Judged } from './gate.ts'
import { clockText, kindText, type Layout, sinceText } from './verdict-text.ts'

/** Causes of which the events and log lines are read. */
const maxCauses = 5
/** Warnings of a cause that are shown, of those that are read. */
const maxWarnings = 5
const maxEventsRead = 500
/** of a log; a line may be long */
const maxLogBytes = 64 * 1024
/** characters of a line that is shown */
const maxLine = 500

export interface ReportComponents {
  /** as the caller */
  readonly ask: (request: KasRequest) => ReturnType<typeof askKas>
  readonly layout: Layout
}

/** Each cause once, with the roots that are not well by it, its last Warnings and the last lines of its log. */
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

function headLines(judged: readonly Judged[], { layout }: ReportComponents): string[] {
  const first = judged[0]?.row
  const { paint, now } = layout
  const names = judged
    .map(({ row: { ns = '', k, n }, isBelow }) =>
      printable(`${isBelow ? 'below ' : ''}${ns === '' ? '' : `${ns}/`}${kindText(k)}/${n}`),
    )
    .join(', ')
  const since = first?.z ? sinceText(first.z, now) : ''
  return [[names, paint.faint(since)].filter(Boolean).join('  '), ...(first ? causeLines(first, layout, '    ') : [])]
}

async function evidenceOf({ z }: Row, components: ReportComponents, logLines: number): Promise<string[]> {
  if (!z) return []
  const [warnings, log] = await Promise.all([
    warningsOf(z, components),
    logLines > 0 ? logOf(z, components, logLines) : [],
  ])
  return [...warnings, ...log]
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

/** Of a namespace, or of a Pod: what else an agent says asks for nothing. */
const isName = (text: string) => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text)

async function warningsOf({ kind, namespace, name }: Cause, { ask, layout }: ReportComponents): Promise<string[]> {
  if (namespace !== '' && !isName(namespace)) return []
  const fields = [
    `involvedObject.kind=${kind.slice(kind.indexOf('/') + 1)}`,
    `involvedObject.name=${name}`,
    'type=Warning',
  ]
  const query = new URLSearchParams({ fieldSelector: fields.join(','), limit: String(maxEventsRead) })
  // events of what is in no namespace are in this one
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace || 'default')}/events?${query}`
  try {
    const { items } = readAnswer(eventList, await ask({ method: 'GET', path }))
    const shown = items
      .map((item) => ({
        ...item,
        at: Date.parse(item.lastTimestamp ?? item.eventTime ?? item.metadata.creationTimestamp ?? ''),
      }))
      .sort((one, other) => (one.at || 0) - (other.at || 0))
      .slice(-maxWarnings)
    return shown.map(({ at, reason, message, count, series }) => {
      const times = series?.count ?? count ?? 1
      return `    ${clockText(at, layout.now)} ${lineText(`${reason}${times > 1 ? ` (${times} times)` : ''}: ${message}`)}`
    })
  } catch (error) {
    return [`    its events cannot be read: ${lineText((error as Error).message)}`]
  }
}

/** What a kubelet says, in place of a log, of a container that it has removed. */
const isRemoved = /^(?:unable to retrieve container logs for|failed to try resolving symlinks in path) [^\n]*$/

/** Where what to read next is a log, its end is read: of the life before, or, while it is not kept, of the one that ended last. */
async function logOf(
  { kind, namespace, name: pod, next }: Cause,
  { ask }: ReportComponents,
  lines: number,
): Promise<string[]> {
  const [isLog, container, previous] = / logs \S+(?: -c (\S+))?(?:.* (--previous))?/.exec(next) ?? []
  if (!isLog || kind !== 'Pod' || !isName(namespace) || !isName(pod)) return []
  const read = async (isPrevious: boolean) => {
    const query = new URLSearchParams({
      ...(container ? { container } : {}),
      tailLines: String(lines),
      limitBytes: String(maxLogBytes),
      ...(isPrevious ? { previous: 'true' } : {}),
    })
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log?${query}`
    const text = (await ask({ method: 'GET', path, accept: 'text/plain, */*' })).trimEnd()
    if (isRemoved.test(text)) throw new Error(text)
    return { text, isPrevious }
  }
  try {
    const asked = read(previous !== undefined)
    // it has ended, and is not started again yet: what is kept is its own log
    const { text, isPrevious } = await (previous
      ? asked.catch((error) => read(false).catch(() => Promise.reject(error)))
      : asked)
    if (text === '') return []
    const head = `    last lines of ${printable(`${pod}${container ? `, container ${container}` : ''}`)}${isPrevious ? ', before its last start' : ''}:`
    return [
      head,
      ...text
        .split('\n')
        .slice(-lines)
        .map((line) => `      ${lineText(line)}`),
    ]
  } catch (error) {
    return [`    its log cannot be read: ${lineText((error as Error).message)}`]
  }
}

function lineText(text: string): string {
  return printable(text.length > maxLine ? `${text.slice(0, maxLine)}…` : text)
}
