import type { Scene } from '../stage.ts'

const startMs = 30_000

export const join: Scene = {
  name: 'join',
  title: 'A fourth replica joins',
  async play(stage) {
    const fourth = stage.stack.replicas.find(({ pid }) => pid === undefined)
    if (!fourth) throw new Error('all replicas run')
    const at = performance.now()
    const since = () => Math.round(performance.now() - at)
    await stage.stack.startReplica(fourth)
    await fourth.ready(AbortSignal.any([stage.signal, AbortSignal.timeout(startMs)]))
    stage.say(`${fourth.name} is ready after ${since()} ms`)
    const { status, tookMs, body } = await stage.caller(fourth).ask('/api/v1/namespaces')
    stage.say(`its first call: ${status}, ${Math.round(tookMs)} ms`)
    stage.check(status === 200, `the first call through ${fourth.name} succeeds: ${body.slice(0, 200)}`)
    await stage.settle()
    stage.say(`all four know one another after ${since()} ms`)
  },
}
