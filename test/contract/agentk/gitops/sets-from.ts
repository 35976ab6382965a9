import type { Test } from 'tap'
import { KeptFiles } from '../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { followObjects, type ObjectSet } from '../../../../src/agentk/modules/gitops/files/objects-stream.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import type { KasError } from '../../../../src/lib/errors.ts'
import { maxRoundBytes } from '../../../../src/proto/gitops/limits.ts'
import { kasOf, startSessions } from '../agent-side.ts'
import { type FakeKas, listenAs } from '../fake-kas.ts'

/** Returns the sets of YAML files of a branch that agentk gets from this kas, until the test ends. */
export async function setsFrom(t: Test, kas: FakeKas) {
  const sessions = await startSessions(t, `grpc://127.0.0.1:${await listenAs(t, kas, 'grpc')}`)
  const sets: ObjectSet[] = []
  const problems: KasError[] = []
  const stop = new AbortController()
  const ended = followObjects(
    {
      kas: kasOf(sessions),
      files: new KeptFiles(maxRoundBytes, () => 1),
      onSet: (set) => sets.push(set),
      onProblem: (error) => problems.push(error),
      onFollowing: () => undefined,
      clock: systemClock,
      random: () => 0,
    },
    { project: 'platform/shop', paths: [{ glob: '**/*.yaml' }], ref: { branch: 'main' } },
    stop.signal,
  )
  t.teardown(async () => {
    stop.abort(new Error('over'))
    await ended
  })
  return { sets, problems }
}
