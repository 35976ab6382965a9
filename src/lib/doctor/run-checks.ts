import type { Finding, Found } from './findings.ts'

/**
 * One row of a doctor's table.
 *
 * @typeParam Ground - the configuration, and all else that checks are given
 */
export interface Check<Ground> {
  /** doc/operate/doctor.md has a section for each */
  readonly name: string
  /** earlier rows; if one of them blocks, this row is skipped. Default: none */
  readonly needs?: readonly string[]
  /** absent: other rows yield its findings, by connections of their own */
  run?(ground: Ground): readonly Found[] | Promise<readonly Found[]>
}

/**
 * Runs the checks of a table side by side, each once those that it needs have ended.
 *
 * @param ground - undefined: the configuration cannot be used, and all checks are skipped
 * @returns findings, in the order of the table
 * @throws the error of a check
 */
export async function runChecks<Ground>(
  checks: readonly Check<Ground>[],
  ground: Ground | undefined,
): Promise<Finding[]> {
  const runs = new Map<string, Promise<readonly Found[]>>()
  const runCheck = async ({ name, needs = [], run }: Check<Ground>): Promise<readonly Found[]> => {
    if (ground === undefined) return [{ state: 'skipped', text: 'the configuration cannot be used' }]
    for (const needed of needs) {
      const before = runs.get(needed)
      if (!before) throw new Error(`${name} needs ${needed}, which is no earlier check`)
      const blocks = (await before).find((one) => one.blocks !== undefined)?.blocks
      if (blocks !== undefined) return [{ state: 'skipped', text: blocks, blocks }]
    }
    return (await run?.(ground)) ?? []
  }
  for (const check of checks) runs.set(check.name, runCheck(check))
  const found = await Promise.all(
    Array.from(runs, async ([check, run]) => (await run).map(({ blocks: _, ...one }) => ({ check, ...one }))),
  )
  const order = [...runs.keys()]
  return found.flat().sort((one, other) => order.indexOf(one.check) - order.indexOf(other.check))
}
