import type { Finding } from '../../../lib/findings.ts'

/** Check of files that a configuration names. */
export interface FileCheck {
  /** key of the configuration */
  readonly key: string
  /** files that the check needs, each with its key */
  readonly files: readonly (readonly [key: string, file: string])[]
  check(): Promise<Finding[]>
}

/** Runs all checks. */
export async function findingsOfFiles(checks: readonly FileCheck[]): Promise<Finding[]> {
  return (await Promise.all(checks.map((one) => one.check()))).flat()
}
