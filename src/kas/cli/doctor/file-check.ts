import type { Found } from '../../../lib/doctor/findings.ts'

/** Check of files that a configuration names. */
export interface FileCheck {
  /** key of the configuration */
  readonly key: string
  /** files that the check needs, each with its key */
  readonly files: readonly (readonly [key: string, file: string])[]
  check(): Promise<Found[]>
}

/** Returns the check of one file; none if `file` is undefined: the configuration does not name it. */
export function fileCheck(
  key: string,
  file: string | undefined,
  check: (key: string, file: string) => Promise<Found[]>,
): FileCheck[] {
  return file === undefined ? [] : [{ key, files: [[key, file]], check: () => check(key, file) }]
}

/** Runs all checks. */
export async function findingsOfFiles(checks: readonly FileCheck[]): Promise<Found[]> {
  return (await Promise.all(checks.map((one) => one.check()))).flat()
}
