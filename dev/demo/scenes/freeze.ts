import { delay } from '../../../src/lib/signals.ts'
import type { Scene } from '../stage.ts'
import { underLoad } from './under-load.ts'

/** longer than agentk needs to leave a kas that does not answer (doc/internals/agentk-placement.md "When something goes"). ms */
const frozenMs = 12_000

export const freeze: Scene = {
  name: 'freeze',
  title: 'The holder frozen (SIGSTOP), under calls through the others',
  async play(stage) {
    const { holder, others } = await stage.holder()
    const callers = others.map((replica) => stage.caller(replica))
    await underLoad(stage, { scene: 'freeze', callers, mayLoseUnsafe: true }, async () => {
      const at = performance.now()
      holder.signal('SIGSTOP')
      stage.say(`SIGSTOP to ${holder.name}`)
      try {
        await delay(frozenMs, stage.signal)
        await stage.table()
      } finally {
        holder.signal('SIGCONT')
      }
      stage.say(`SIGCONT to ${holder.name}`)
      return at
    })
  },
}
