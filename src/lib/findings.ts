import { type ConfigWarning, warningReason } from './config.ts'
import { KasError } from './errors.ts'
import { printable } from './printable.ts'
import { withoutNodeAdvice } from './tls-fault.ts'

/** What `kas doctor` and `agentk doctor` have found. */

/** `note`: nothing fails by it; it will soon, or has no effect; `skipped`: not checked, and why */
export type State = 'ok' | 'note' | 'failed' | 'skipped'

/** What one check has shown. */
export interface Finding {
  /** doc/doctor.md has a section for each */
  readonly check: string
  readonly state: State
  /** a key of the configuration, a flag, or the name of a replica */
  readonly subject?: string | undefined
  /** where its value is from: `line 3`, a variable, `default` */
  readonly from?: string | undefined
  readonly text: string
  /** what to do */
  readonly advice?: string | undefined
}

/** Of a check whose name and subject its caller adds. */
export type CheckResult = Omit<Finding, 'check' | 'subject'>

/**
 * Of a file of the configuration that cannot be used: each problem by itself, and as notes the unknown keys that may be
 * the cause.
 *
 * @throws `error`, if it is none
 */
export function problemFindings(check: string, error: unknown): Finding[] {
  if (!(error instanceof KasError) || error.spec.code !== 'SETTINGS_INVALID') throw error
  const { file, problems, hints = [] } = error.spec
  const findingOf = (state: State) => (problem: string) => {
    const [, subject, text = problem] = /^([a-z_.-]+): (.*)$/s.exec(problem) ?? []
    return { check, state, subject, text: `${file}: ${text}` }
  }
  return [...problems.map(findingOf('failed')), ...hints.map(findingOf('note'))]
}

/** Of a key without effect. One that was meant to say who may do what, or where kas listens, has failed. */
export function warningFinding(check: string, { key, ...warning }: ConfigWarning): Finding {
  const text = warningReason(warning)
  if (!warning.isDecisive) return { check, state: 'note', subject: key, text }
  return { check, state: 'failed', subject: key, text, advice: 'kas goes on without it: write the key as it is known' }
}

const words: Readonly<Record<State, string>> = { ok: 'ok', note: 'note', failed: 'FAILED', skipped: 'skipped' }

/** Of what others say: a name of a certificate, an answer of a front, a reason of DNS. characters */
const maxCharacters = 600

const cut = (text: string) => (text.length > maxCharacters ? `${text.slice(0, maxCharacters)}...` : text)

/** What a reader gets of them: texts of others may be long. */
export function boundedFindings(findings: readonly Finding[]): Finding[] {
  return findings.map(({ subject, text, advice, ...rest }) => ({
    ...rest,
    ...(subject === undefined ? {} : { subject: cut(subject) }),
    text: cut(withoutNodeAdvice(text)),
    ...(advice === undefined ? {} : { advice: cut(advice) }),
  }))
}

/** A line each, for people. */
export function findingsText(findings: readonly Finding[]): string {
  const wordWidth = Math.max(...Object.values(words).map(({ length }) => length))
  const checkWidth = Math.max(...findings.map(({ check }) => check.length))
  return findings
    .map(({ check, state, subject, from, text, advice }) => {
      const where = from === undefined ? '' : ` (${from})`
      const what = `${subject === undefined ? '' : `${subject}${where}: `}${text}`
      const next = advice === undefined ? '' : `; ${advice}`
      return `${printable(`${words[state].padEnd(wordWidth)}  ${check.padEnd(checkWidth)}  ${what}${next}`)}\n`
    })
    .join('')
}

export const failuresOf = (findings: readonly Finding[]): number =>
  findings.filter(({ state }) => state === 'failed').length
