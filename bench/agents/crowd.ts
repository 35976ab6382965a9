/**
 * Many stock agents in one process. Sends `there` when all are connected; then, for each `return`, an answer when all
 * are back.
 */
import type { CrowdSettings, ReturnAnswer } from './questions.ts'
import { StockAgent } from './stock-agent.ts'

/** limit of agents that connect at once at the start, which is not measured */
const maxArriving = 20

const { port, transport, from, to } = JSON.parse(process.argv[2] as string) as CrowdSettings
const isThere = ({ tunnelsAt, configurationAt }: StockAgent) => Boolean(tunnelsAt && configurationAt)
let allThere = Promise.withResolvers<void>()
let fewArrive = Promise.withResolvers<void>()
let started = 0
const look = () => {
  const there = agents.filter(isThere).length
  if (started - there < maxArriving) fewArrive.resolve()
  if (there === agents.length) allThere.resolve()
}
const agents = Array.from({ length: to - from }, (_, i) => new StockAgent({ number: from + i, port, transport }, look))

process.on('disconnect', () => process.exit())
process.on('message', async () => {
  allThere = Promise.withResolvers()
  for (const agent of agents) agent.forget()
  process.send?.('ready')
  await allThere.promise
  process.send?.({
    tunnelsAt: agents.map(({ tunnelsAt }) => tunnelsAt as number),
    configurationAt: agents.map(({ configurationAt }) => configurationAt as number),
  } satisfies ReturnAnswer)
})
for (const agent of agents) {
  started++
  await agent.start()
  fewArrive = Promise.withResolvers()
  look()
  await fewArrive.promise
}
await allThere.promise
process.send?.('there')
