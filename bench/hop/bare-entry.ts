/**
 * Bare bytes, a replica without the agent. It carries each request to the replica that has it, on one HTTP/2
 * connection: on a stream of its own, or on long-lived ones.
 */
import { connect } from 'node:http2'
import { carryOnStreams, startBareHttp, windowBytes } from './bare-http.ts'
import { laneCarrier } from './bare-lanes.ts'

const { replicasPort, lanes } = JSON.parse(process.argv[2] as string) as { replicasPort: number; lanes: boolean }
const holder = connect(`http://127.0.0.1:${replicasPort}`, { settings: { initialWindowSize: windowBytes } })
holder.once('connect', () => {
  holder.setLocalWindowSize(windowBytes)
  const carry = lanes ? laneCarrier(holder) : carryOnStreams(() => holder)
  startBareHttp(carry, (httpPort) => process.send?.({ httpPort }))
})
process.on('disconnect', () => process.exit())
