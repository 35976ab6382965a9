import type { Count, OutputKind } from '../../command/output.ts'

/**
 * Results of the checks of a configuration.
 *
 * @command kas doctor
 */
export interface DoctorReport extends OutputKind<'DoctorReport'> {
  /** findings, in the order of doc/operate/doctor.md */
  readonly findings: readonly DoctorFinding[]
  /** number of failed checks */
  readonly failures: Count
}

/** Result of one check. */
export interface DoctorFinding {
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
