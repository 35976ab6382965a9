import type { Finding } from '../../../lib/findings.ts'

/** Files that a configuration names, and how they are checked. */
export interface FileCheck {
  /** of the configuration */
  readonly key: string
  /** all of them are needed, each with its key */
  readonly files: readonly (readonly [key: string, file: string])[]
  check(): Promise<Finding[]>
}

/** Runs all. */
export async function findingsOfFiles(checks: readonly FileCheck[]): Promise<Finding[]> {
  return (await Promise.all(checks.map((one) => one.check()))).flat()
}
