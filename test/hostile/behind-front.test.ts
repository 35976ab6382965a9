import t, { type Test } from 'tap'
import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { startPassingHaproxy } from '../cluster/front-program.ts'
import { absent } from '../support/absent.ts'
import { Processes } from '../support/processes.ts'
import { attacks as all } from './attacks.ts'
import { SlowGitlab } from './slow-gitlab.ts'
import { playAll, timeoutOf } from './small-size.ts'
import type { Stage } from './stage.ts'

/** The attacks through a trusted front: kas counts the attacker by the attacker's own address, not by the front's. */

/**
 * the front's address; the newcomer connects through the front, so it is refused if kas counts by the front's address
 */
const front = '127.0.0.9'
const skip = absent('haproxy') && 'needs haproxy'

/** attacks of authenticated users, whom kas counts by user and project, from any address */
const isOfUser = ({ name }: { readonly name: string }) => name.startsWith('greedy-') || name === 'idle-callers'

const plain = all.filter((attack) => !attack.gitlab && !attack.cluster && !attack.isLong && !isOfUser(attack))
t.test('a tenant\u2019s cost is his own, behind haproxy', { skip, timeout: timeoutOf(plain) }, (t) =>
  playAll(t, { attacks: plain, ground: { front }, execs: 1, wayTo: (stage) => throughHaproxy(t, stage) }),
)

const strangers = all.filter(({ gitlab }) => gitlab)
t.test('a stranger\u2019s too', { skip, timeout: timeoutOf(strangers) }, async (t) => {
  const gitlab = await SlowGitlab.start()
  t.teardown(() => gitlab.stop())
  const wayTo = (stage: Stage) => throughHaproxy(t, stage)
  await playAll(t, { attacks: strangers, ground: { gitlab, front }, execs: 1, wayTo })
})

async function throughHaproxy(t: Test, stage: Stage): Promise<Stage> {
  const processes = await Processes.start(t)
  const behind = async (ports: ReplicaPorts): Promise<ReplicaPorts> => {
    const replica = { agentsPort: ports.agents, opsPort: ports.ops, relay: { port: ports.kubernetes } }
    const how = { source: front, version: 2 } as const
    const started = await startPassingHaproxy({ processes }, [replica, replica, replica], how)
    return { ...ports, agents: started.agentsPort, kubernetes: started.kubernetesPort }
  }
  const [entry, holder, standby] = [await behind(stage.entry), await behind(stage.holder), await behind(stage.standby)]
  return { ...stage, entry, holder, standby }
}
