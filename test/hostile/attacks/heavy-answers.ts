import { randomBytes } from 'node:crypto'
import { pushMethod } from '../../../src/kas/modules/gitops/states-receiver.ts'
import type { Attack } from '../attack.ts'
import { dialStreams } from '../raw-streams.ts'
import { EvilUser, fleetOf, told } from '../stage.ts'
import { fullStates } from './heavy-states.ts'

interface Size {
  readonly agents: number
}

/** requests at once about each agent; each agent has its own commit, so that no answer is shared */
const askedAtOnce = 16

export const heavyAnswers: Attack<Size> = {
  name: 'heavy-answers',
  what: 'the longest states of many agents of one tenant, asked for as often at once as each agent allows',
  cheap: { agents: 2 },
  full: { agents: 60 },
  async play(stage, { agents }, signal) {
    const { tenant, userToken } = fleetOf(stage)
    const connection = await dialStreams(stage, stage.holder)
    const user = new EvilUser(stage, agents * askedAtOnce)
    const end = async () => {
      user.close()
      connection.destroy()
    }
    const used = tenant.slice(0, agents)
    const ask = (id: number, query = '') => {
      return user.get(stage.holder, `/gitops/state${query}`, { credential: `pat:${id}:${userToken}`, signal })
    }
    try {
      for (const { id, token } of used) await connection.open(pushMethod, token).write(fullStates(id))
      for (const { id } of used) while (!(await ask(id)).body.includes(`"${id}-2-14"`)) signal.throwIfAborted()
      const asked = used.flatMap(({ id }) =>
        Array.from({ length: askedAtOnce }, () => ask(id, `?fresh=true&commit=${randomBytes(20).toString('hex')}`)),
      )
      const first = await Promise.race(asked)
      for (const one of asked) one.catch(() => undefined) // they end with the round
      return { refusal: told(first), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}
