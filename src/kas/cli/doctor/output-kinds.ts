import type { Finding } from '../../../lib/doctor/findings.ts'
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
export interface DoctorFinding extends Finding {}
