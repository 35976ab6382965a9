import t, { type Test } from 'tap'
import type { Finding } from '../../src/lib/doctor/findings.ts'

/** A planted fault, and a doctor's finding of it. */
export interface DoctorFault<World> {
  readonly check: string
  /** default: failed */
  readonly state?: Finding['state']
  /** pattern of the fault and its place */
  readonly says: RegExp
  /** pattern of the advice */
  readonly advises: RegExp
  /** default: none */
  readonly args?: readonly string[]
  plant(world: World): unknown
}

interface Patient {
  run(...args: string[]): Promise<{ code: number; stdout: string; findings: readonly Finding[] }>
}

/**
 * Makes a test for each fault: it is planted in a sound world, and the doctor must name it.
 *
 * @param never - pattern that no output may match
 */
export function testFaults<World extends Patient>(
  faults: Readonly<Record<string, DoctorFault<World>>>,
  sound: (t: Test) => Promise<World>,
  never?: RegExp,
): void {
  for (const [name, { check, state = 'failed', says, advises, args = [], plant }] of Object.entries(faults)) {
    t.test(`named: ${name}`, async (t) => {
      const world = await sound(t)
      await plant(world)
      const { code, stdout, findings } = await world.run(...args)
      t.equal(code, state === 'failed' ? 1 : 0, stdout)
      const found = findings.filter((one) => one.check === check && one.state === state)
      t.ok(
        found.some(({ text, advice = '' }) => says.test(text) && advises.test(advice)),
        stdout,
      )
      if (never) t.notMatch(stdout, never)
    })
  }
}
