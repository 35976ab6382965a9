/** A port in a process of its own, before another port of this machine, with the network delay of its argument. */
import { FarPort } from '../../test/support/far-port.ts'

const { port, roundTripMs } = JSON.parse(process.argv[2] as string) as { port: number; roundTripMs: number }
const far = await FarPort.start(port, roundTripMs)
process.send?.({ port: far.port })
process.on('disconnect', () => process.exit())
