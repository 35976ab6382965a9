import { chartsOnNodes } from './images/charts-on-nodes.ts'

/** What is installed by the charts goes on, while nodes and versions come and go under it. */

/** of pods that leave: 80 s each of kas, which the chart gives it with the graces of the ground, and a way to go. s */
const drainSeconds = 120

await chartsOnNodes(import.meta.url, async (t, ground) => {
  await ground.installBoth()
  await ground.install('agentk', 'extraEnv[0].name=LOG_LEVEL', 'extraEnv[0].value=debug')

  await t.test('a node that is drained, and the way back to the version before, fail no call', async (t) => {
    await ground.underCalls(t, async () => {
      const { spec } = await ground.cluster.admin.get('/api/v1/namespaces/kas/pods/kas-0')
      const patience = `--timeout=${drainSeconds}s`
      const drain = ['drain', spec.nodeName, '--ignore-daemonsets', '--delete-emptydir-data', patience]
      const drained = await ground.kubectl.start(drain)
      const { code, stdout } = await drained.ends({ timeoutMs: (drainSeconds + 10) * 1000 })
      t.equal(code, 0)
      t.match(stdout.toString(), /pod\/kas-0 evicted/)
      await ground.kubectl.ok(['uncordon', spec.nodeName])
      await ground.rollback('agentk', 1)
    })
  })
})
