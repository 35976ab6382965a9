import { type ConfigWarning, warningReason } from '../config.ts'
import { KasError } from '../errors.ts'
import { printable } from '../printable.ts'
import { withoutNodeAdvice } from '../tls-fault.ts'

/** Result of one check of `kas doctor` or `agentk doctor`. */
export interface Finding {
  /** name of the check; doc/operate/doctor.md has a section for each */
  readonly check: string
  /** `note`: nothing fails yet, or a key has no effect; `skipped`: not checked, `text` has the reason */
  readonly state: 'ok' | 'note' | 'failed' | 'skipped'
  /** key of the configuration, flag, or name of a replica */
  readonly subject?: string | undefined
  /** source of the subject's value: `line 3`, a variable, or `default` */
  readonly from?: string | undefined
  /** result of the check, a sentence */
  readonly text: string
  /** next step */
  readonly advice?: string | undefined
}

/** A finding as a check yields it. */
export interface Found extends Omit<Finding, 'check'> {
  /** default: the check that yields it */
  readonly check?: string
  /** the checks that need this one are skipped, for this reason; absent: they run */
  readonly blocks?: string
}

export const failed = (text: string, advice?: string): Found => ({ state: 'failed', text, advice })

/**
 * Findings of a configuration file that cannot be used: one for each problem, and as notes the unknown keys that may be
 * the cause.
 *
 * @param advice - next step for all of them
 * @throws `error`, if it is no such error
 */
export function problemFindings(check: string, error: unknown, advice?: string): Finding[] {
  if (!(error instanceof KasError) || error.spec.code !== 'SETTINGS_INVALID') throw error
  const { file, problems, hints = [] } = error.spec
  const findingOf = (state: Finding['state']) => (problem: string) => {
    const [, subject, text = problem] = /^([a-z_.-]+): (.*)$/s.exec(problem) ?? []
    return { check, state, subject, text: `${file}: ${text}`, advice }
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
  const stateWidth = 'skipped'.length
  const checkWidth = Math.max(...findings.map(({ check }) => check.length))
  return findings
    .map(({ check, state, subject, from, text, advice }) => {
      const where = from === undefined ? '' : ` (${from})`
      const what = `${subject === undefined ? '' : `${subject}${where}: `}${text}`
      const next = advice === undefined ? '' : `; ${advice}`
      const word = state === 'failed' ? 'FAILED' : state
      return `${printable(`${word.padEnd(stateWidth)}  ${check.padEnd(checkWidth)}  ${what}${next}`)}\n`
    })
    .join('')
}

export const failuresOf = (findings: readonly Finding[]): number =>
  findings.filter(({ state }) => state === 'failed').length
