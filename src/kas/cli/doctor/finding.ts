import { KasError } from '../../../lib/errors.ts'

/** `note`: nothing is wrong, and something soon will be, or cannot be told from here; `skipped`: not looked at, and why */
export type State = 'ok' | 'note' | 'failed' | 'skipped'

/** What one look has shown; doc/doctor.md has a section for each `check`. */
export interface Finding {
  readonly check: CheckName
  readonly state: State
  /** a key of the configuration, or the name of a replica */
  readonly subject?: string | undefined
  readonly text: string
  /** what to do */
  readonly advice?: string | undefined
}

export const checkNames = [
  'configuration',
  'directory',
  'secrets',
  'certificates',
  'git',
  'discovery',
  'gitlab',
  'replicas',
] as const
export type CheckName = (typeof checkNames)[number]

/** Of a file of the configuration that cannot be used: each problem by itself. @throws `error`, if it is none */
export function problemFindings(check: CheckName, error: unknown): Finding[] {
  if (!(error instanceof KasError) || error.spec.code !== 'SETTINGS_INVALID') throw error
  const { file, problems } = error.spec
  return problems.map((problem) => {
    const [, subject, text = problem] = /^([a-z_.]+): (.*)$/s.exec(problem) ?? []
    return { check, state: 'failed', subject, text: `${file}: ${text}` }
  })
}
