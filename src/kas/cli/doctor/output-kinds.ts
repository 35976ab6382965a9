import type { Count, OutputKind } from '../../command/output.ts'

/**
 * Results of the checks of a configuration.
 *
 * @command kas doctor
 */
export interface DoctorReport extends OutputKind<'DoctorReport'> {
  /** findings, in the order of doc/doctor.md */
  readonly findings: readonly DoctorFinding[]
  /** checks that have failed */
  readonly failures: Count
}

/** Result of one check. */
export interface DoctorFinding {
  /** name of the check; doc/doctor.md has a section for each */
  readonly check: string
  /** `note`: nothing fails by it now; `skipped`: not checked, `text` has the reason */
  readonly state: 'ok' | 'note' | 'failed' | 'skipped'
  /** key of the configuration, flag, or name of a replica */
  readonly subject?: string | undefined
  /** where the value is from: `line 3`, a variable, `default` */
  readonly from?: string | undefined
  /** what was found */
  readonly text: string
  /** what to do */
  readonly advice?: string | undefined
}
