import { type ConfigWarning, warningReason } from './config.ts'
import { KasError } from './errors.ts'
import { printable } from './printable.ts'
import { withoutNodeAdvice } from './tls-fault.ts'

/** Findings of `kas doctor` and `agentk doctor`. */

/** `note`: nothing fails yet, or a key has no effect; `skipped`: not checked, with the reason */
export type State = 'ok' | 'note' | 'failed' | 'skipped'

/** Result of one check. */
export interface Finding {
  /** doc/operate/doctor.md has a section for each */
  readonly check: string
  readonly state: State
  /** a key of the configuration, a flag, or the name of a replica */
  readonly subject?: string | undefined
  /** source of the subject's value: `line 3`, a variable, `default` */
  readonly from?: string | undefined
  readonly text: string
  /** the operator's next step */
  readonly advice?: string | undefined
}

/** Result of a check whose name and subject its caller adds. */
export type CheckResult = Omit<Finding, 'check' | 'subject'>

/**
 * Findings of a configuration file that cannot be used: one for each problem, and as notes the unknown keys that may be
 * the cause.
 *
 * @throws `error`, if it is no such error
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

/**
 * Finding of a key without effect. It has failed if the key was meant to grant rights, or to name an address of kas.
 */
export function warningFinding(check: string, { key, ...warning }: ConfigWarning): Finding {
  const text = warningReason(warning)
  if (!warning.isDecisive) return { check, state: 'note', subject: key, text }
  return { check, state: 'failed', subject: key, text, advice: 'kas goes on without it: write the key as it is known' }
}

const words: Readonly<Record<State, string>> = { ok: 'ok', note: 'note', failed: 'FAILED', skipped: 'skipped' }

/** Bound of text from others: a name of a certificate, an answer of a load balancer, a reason of DNS. characters */
const maxCharacters = 600

const cut = (text: string) => (text.length > maxCharacters ? `${text.slice(0, maxCharacters)}...` : text)

/** Returns findings for a reader: long texts of others are cut. */
export function boundedFindings(findings: readonly Finding[]): Finding[] {
  return findings.map(({ subject, text, advice, ...rest }) => ({
    ...rest,
    ...(subject === undefined ? {} : { subject: cut(subject) }),
    text: cut(withoutNodeAdvice(text)),
    ...(advice === undefined ? {} : { advice: cut(advice) }),
  }))
}

/** Returns one line for each finding, for people. */
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
