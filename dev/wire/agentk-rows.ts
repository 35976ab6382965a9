import { wireSection } from './row.ts'

/** Our agentk, as kas and the chart know a stock one. */

export const agentkRows = wireSection('agentk', [
  ['agentk.idle', 'W 2.7', 'captured 1', 'two idle tunnels'],
  ['figure.pool', 'W 2.7', 'defined', 'the figures of it: 2, 10, 500, a minute'],
  ['agentk.grow', 'W 2.7', 'captured 1', 'ten more when fewer than two are idle, 500 at most'],
  ['agentk.shrink', 'W 2.7', 'defined', 'an idle tunnel above two stops after a minute, when its Connect ends'],
  ['agentk.again', 'W 2.5', 'defined', 'Connect ends with OK, CANCELLED, DEADLINE_EXCEEDED: the next at once'],
  ['agentk.back-off', 'W 2.5', 'defined', 'other codes: 1 s, factor 1.6, to 20 s, anew after 25 s'],
  [
    'agentk.configuration.back-off',
    'W 2.5',
    'defined',
    'a configuration stream that failed: 10 s; one that ended: at once',
  ],
  ['agentk.register.period', 'W 2.5', 'defined', 'registered every 5 min, `pod_id` stays, positive'],
  ['agentk.unregister', 'W 1.6', 'defined', 'unregistered at the end; a kas that knows no Unregister does no harm'],
  ['agentk.descriptor', 'W 2.8', 'captured 1', 'the descriptor names services and methods that are served'],
  ['agentk.order', 'W 3.2', 'defined', 'header, each message, trailer, then an error if there is one'],
  ['agentk.error-only', 'W 3.2', 'defined', 'a call that fails at once has only its error'],
  ['agentk.kas-ends', 'W 3.2', 'defined', 'kas ends Connect with an error: the call is cancelled'],
  [
    'agentk.upgrade',
    'W 2.2',
    'captured 1',
    'the WebSocket is asked for on the path of the address, its query dropped, sub-protocol, headers',
  ],
  ['agentk.ping', 'W 2.4', 'defined', 'PINGs while it is quiet'],
  ['agentk.flag.kas-address', 'W 2.10', 'defined', '`--kas-address`: grpc, grpcs, ws, wss, ports 80 and 443'],
  ['agentk.flag.token-file', 'W 2.10, G 9.3 no. 28', 'defined', '`--token-file` or `AGENTK_TOKEN`, not both'],
  ['agentk.flag.ca', 'W 2.10', 'defined', '`--kas-ca-cert-file`, `--ca-cert-file`'],
  ['agentk.flag.kas-header', 'W 2.10', 'defined', '`--kas-header`, repeated'],
  ['agentk.flag.kas-tls-server-name', 'W 2.10', 'defined', '`--kas-tls-server-name`'],
  [
    'agentk.flag.observability',
    'W 2.10',
    'defined',
    '`--observability-listen-network`, `-listen-address`, `-cert-file`, `-key-file`',
  ],
  ['agentk.env', 'W 2.10', 'defined', '`POD_NAMESPACE`, `POD_NAME`'],
  ['agentk.lease', 'W 2.10', 'defined', 'Lease `agent-<agent id>-lock` in its namespace'],
  ['agentk.flux.stream', 'W 1.9', 'defined', 'the pod that leads names the projects of GitRepositories of this GitLab'],
  [
    'agentk.flux.back-off',
    'W 2.5',
    'defined',
    'a stream of pushes that failed: 10 s to 5 min; one that ended: at once',
  ],
  ['agentk.flux.receiver', 'G 8', 'defined', 'a Receiver for each GitRepository, named and annotated as a stock one'],
  [
    'agentk.flux.webhook',
    'W 1.9',
    'defined',
    'for each push POST to the webhook of the Receiver, once for each push id',
  ],
  ['agentk.flux.webhook-url', 'W 7.2', 'defined', '`flux.webhook_receiver_url`, or the path of a service proxy'],
])
