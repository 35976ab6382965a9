import type { Scene } from '../stage.ts'
import { underLoad } from './under-load.ts'

export const kill: Scene = {
  name: 'kill',
  title: 'kill -9 of the holder, under calls through the others',
  async play(stage) {
    const { holder, others } = await stage.holder()
    const callers = others.map((replica) => stage.caller(replica))
    await underLoad(stage, { scene: 'kill', callers, mayLoseUnsafe: true }, async () => {
      const at = performance.now()
      holder.signal('SIGKILL')
      stage.say(`kill -9 of ${holder.name}`)
      await holder.exited
      await stage.holder()
      return at
    })
    await stage.table()
    await stage.startAgain(holder)
  },
}
