import { abortable } from '../../../src/lib/signals.ts'
import { configMaps } from '../ledger.ts'
import type { Scene, Stage } from '../stage.ts'
import { WatchReader } from '../watch-reader.ts'
import { underLoad } from './under-load.ts'

/** longer than all graces of the demo's replicas. ms */
const leaveMs = 30_000
const eventMs = 5000

export const sigterm: Scene = {
  name: 'sigterm',
  title: 'SIGTERM to the holder, under calls through the others and the balancer',
  async play(stage) {
    const { holder, others } = await stage.holder()
    const callers = [...others.map((replica) => stage.caller(replica)), stage.balancer]
    const watched = await WatchReader.open(callers[0] ?? stage.balancer, 'demo-scene=sigterm-watch')
    try {
      await underLoad(stage, { scene: 'sigterm', callers }, async () => {
        const at = performance.now()
        holder.signal('SIGTERM')
        stage.say(`SIGTERM to ${holder.name}`)
        await watchGoesOn(stage, watched)
        watched.close()
        await abortable(holder.exited, AbortSignal.timeout(leaveMs))
        stage.say(`${holder.name} has ended after ${Math.round(performance.now() - at)} ms`)
        return at
      })
    } finally {
      watched.close()
    }
    await stage.startAgain(holder)
  },
}

/** Checks that the watch on the leaving holder still gets events. */
async function watchGoesOn(stage: Stage, watched: WatchReader): Promise<void> {
  const metadata = { name: 'seen-while-leaving', labels: { 'demo-scene': 'sigterm-watch' } }
  const body = { kind: 'ConfigMap', apiVersion: 'v1', metadata }
  const { status } = await stage.balancer.ask(configMaps, { method: 'POST', body })
  await watched.seen(1, AbortSignal.any([stage.signal, AbortSignal.timeout(eventMs)]))
  const held = status === 201 && watched.events.join() === `ADDED ${metadata.name}`
  stage.check(held, `a watch that runs on it sees what happens while it leaves (${watched.ended ?? 'it runs'})`)
  await stage.balancer.ask(`${configMaps}/${metadata.name}`, { method: 'DELETE' })
}
