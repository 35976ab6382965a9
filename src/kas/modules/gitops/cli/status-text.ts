import { printable } from '../../../../lib/printable.ts'
import { textTable } from '../../../command/text-table.ts'
import { driftLines } from './drift-text.ts'
import { healthCell, healthLines } from './health-text.ts'
import { objectName, type ShownSource, type ShownState } from './state.ts'

const head = [
  'SOURCE',
  'REF',
  'PHASE',
  'COMMIT',
  'WANTED',
  'OBJECTS',
  'FAILED',
  'DRIFT',
  'HEALTH',
  'APPLIED',
  'COMPARED',
]
const wideHead = ['REPORTED', 'POLLED', 'ID']

interface TableLayout {
  readonly isWide: boolean
  readonly hasHeaders?: boolean | undefined
}

/** Returns the text of `kas gitops status`: a line for each source, then failures and next steps. */
export function statusText(state: ShownState, agentId: string, layout: TableLayout): string {
  const { sources, agent, away, configuration, cut: isCut, names } = state
  const file = configuration?.problem
    ? [
        `the agent’s file: ${configuration.phase ?? 'REFUSED'}: ${configuration.problem}`,
        ...nextLine(configuration.next),
      ]
    : []
  const missing = isCut ? ['the agent has more sources than kas keeps: some are not shown'] : []
  const absent = sources.length > 0 && agent === 'absent' && away?.text ? [away.text] : []
  const unnamed = names ? [`which objects you may get is not known, so that none is named: ${names.problem}`] : []
  const lines = [...absent, ...file, ...missing, ...unnamed, ...sources.flatMap(detailsOf), ...polledLine(sources)].map(
    (line) => `${printable(line)}\n`,
  )
  if (sources.length > 0) return `${tableText(sources, layout)}${lines.join('')}`
  return `${printable(nothingText(state, agentId))}\n${lines.join('')}`
}

/** Returns the age of the answer, which is that of the oldest poll. */
function polledLine(sources: readonly ShownSource[]): readonly string[] {
  const ages = sources.flatMap(({ polled }) => polled?.age_ms ?? [])
  if (ages.length === 0) return []
  return [
    `the repositories were polled ${secondsText(Math.max(...ages))} ago (kas gitops status --fresh polls them now)`,
  ]
}

/** Returns a source's name for people: its project, and its name if it has one. */
export function nameOf({ project, name, source }: ShownSource): string {
  if (!project) return source
  return name ? `${project} (${name})` : project
}

/** True if an answer without sources is complete: a pod of agentk is connected, and its file was read. */
export function namesNone({ agent, configuration }: Pick<ShownState, 'agent' | 'configuration'>): boolean {
  return agent === 'connected' && Boolean(configuration?.commit)
}

function nothingText(known: Pick<ShownState, 'agent' | 'away' | 'configuration'>, agentId: string): string {
  const { agent, away } = known
  if (agent === 'stock') return `agent ${agentId} is GitLab’s own: it reports no status of its sources`
  if (agent === 'absent' && away?.text) return `nothing is known of the sources of agent ${agentId}: ${away.text}`
  if (agent === 'absent') return `no pod of agent ${agentId} is connected, and nothing is known of its sources`
  if (namesNone(known)) return `the configuration of agent ${agentId} names no source`
  return `kas knows of no source of agent ${agentId}`
}

function tableText(sources: readonly ShownSource[], { isWide, hasHeaders }: TableLayout): string {
  const rows = sources.map((source) => [...rowOf(source), ...(isWide ? wideCells(source) : [])])
  return textTable([[...head, ...(isWide ? wideHead : [])], ...rows], hasHeaders)
}

function wideCells(source: ShownSource): readonly string[] {
  const { at_ms: at, polled } = source
  return [ageOf(source, at), polled === undefined ? '-' : secondsText(polled.age_ms), source.source]
}

function rowOf(source: ShownSource): readonly (string | number)[] {
  const { phase, commit, wanted, counts, stale, ref } = source
  const { objects = 0, applied = 0, unchanged = 0, failed = 0 } = counts ?? {}
  return [
    nameOf(source),
    ref || '-',
    stale ? `${phase} (stale)` : phase,
    short(commit),
    short(wanted),
    `${applied + unchanged}/${objects}`,
    failed,
    driftCell(source),
    healthCell(source),
    ageOf(source, source.applied_at_ms),
    ageOf(source, source.compared_at_ms),
  ]
}

/** Counts what has drifted; `?`: not known, or some objects cannot be compared. */
function driftCell({ counts, drift_mode: mode = '', compared_at_ms: compared = '0' }: ShownSource): string {
  const { drifted = 0, not_compared: notCompared = 0 } = counts ?? {}
  const isFollowed = (mode === 'correct' || mode === 'report') && compared !== '0'
  if (drifted === 0 && !isFollowed) return '?'
  return notCompared > 0 ? `${drifted}?` : String(drifted)
}

function detailsOf(source: ShownSource): readonly string[] {
  const {
    phase,
    problem,
    trouble,
    leaving = [],
    kept = [],
    plan = '',
    next,
    withheld = 0,
    unwatched = [],
    left_to_others: left = [],
  } = source
  const objects = [
    ...trouble.map(({ key, text, file, line }) => `${objectText(key)}${text}${placeText(file, line)}`),
    ...leaving.map(({ key, text }) => `${objectText(key)}would be deleted: ${text}`),
    ...kept.map(({ key, text }) => `${objectText(key)}stays: ${text}`),
    ...driftLines(source),
    ...healthLines(source),
    ...left.map(
      ({ key, path, manager, rule }) => `${objectText(key)}${path} is left to ${manager}, by the rule ${rule}`,
    ),
    ...unwatched.map((text) => `changes are noticed within a minute: ${text}`),
    ...(withheld > 0
      ? [
          `${withheld} object${withheld > 1 ? 's are' : ' is'} not named: you may not get ${withheld > 1 ? 'them' : 'it'}`,
        ]
      : []),
  ]
  const reason = problem || (plan ? 'waits for approval' : '')
  if (!reason && objects.length === 0) return []
  return [
    `${nameOf(source)}: ${phase}${reason ? `: ${reason}` : ''}`,
    ...objects.map((line) => `  ${line}`),
    ...nextLine(next),
  ]
}

function nextLine(next: string | undefined): readonly string[] {
  return next ? [`  next: ${next}`] : []
}

function objectText(key: ShownSource['trouble'][number]['key']): string {
  return key ? `${objectName(key)}: ` : ''
}

function placeText(file: string, line: number): string {
  return file ? ` (${file}${line ? `:${line}` : ''})` : ''
}

/** Computes an age by the agent's clock alone, up to its report; kas measures the time since then. */
function ageOf({ at_ms: at = '0', age_ms: age = 0 }: ShownSource, then = '0'): string {
  if (then === '0') return '-'
  return secondsText(Number(at) - Number(then) + age)
}

function secondsText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}

const short = (commit: string) => commit.slice(0, 8)
