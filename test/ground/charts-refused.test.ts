import { join } from 'node:path'
import t from 'tap'
import type { ChartName } from '../../dev/charts/helm.ts'
import { refusal, skip } from '../support/charts/chart-words.ts'

/** Nonsensical values are refused in one sentence before anything reaches a cluster. */

const values = (chart: ChartName) => [join(import.meta.dirname, `../support/charts/${chart}/least.yaml`)]

/** @param apis - APIs that the cluster serves */
type Refused = readonly [name: string, set: readonly string[], words: string | RegExp, apis?: readonly string[]]

const source = (i: number, ...more: string[]) =>
  ['namespace=shop', 'serviceAccount=deployer', ...more].map((one) => `rbac.gitops.sources[${i}].${one}`)

const agentk: readonly Refused[] = [
  ['no image', ['image.repository='], /^image\.repository is missing: .* such as registry\.example\.com\/agentk$/],
  [
    'no address',
    ['config.kasAddress='],
    'config.kasAddress is missing, such as wss://kas.example.com/-/kubernetes-agent/',
  ],
  [
    'an address without a scheme',
    ['config.kasAddress=kas.example.com'],
    'config.kasAddress is "kas.example.com": expected wss://, grpcs://, ws:// or grpc://, then a host',
  ],
  [
    'an address of pages',
    ['config.kasAddress=https://kas.example.com'],
    /^config\.kasAddress is "https:.*expected wss:/,
  ],
  [
    'two tokens',
    ['config.token=a'],
    'config.token and config.secretName are both set: give the token or the Secret that has it',
  ],
  ['no token', ['config.secretName='], /^the agent's token is missing: set config\.secretName/],
  [
    'a token in a line',
    ['config.secretName=', 'config.token=a b'],
    'config.token has white space in it: give the token alone',
  ],
  ['an authority that is none', ['config.kasCaCert=abc'], /^config\.kasCaCert is no certificate in PEM/],
  [
    'an authority that is a key',
    ['config.kasCaCert=-----BEGIN PRIVATE KEY-----'],
    "config.kasCaCert has a private key in it: give the authority's certificate alone",
  ],
  [
    'two authorities',
    ['config.kasCaCert=-----BEGIN CERTIFICATE-----', 'config.kasCaCertSecret.name=a'],
    /^config\.kasCaCert and config\.kasCaCertSecret\.name are both set/,
  ],
  [
    'TLS of metrics without its key',
    ['config.observability.tls.enabled=true', 'config.observability.tls.secret.create=true'],
    'config.observability.tls.secret.create needs config.observability.tls.cert and config.observability.tls.key',
  ],
  ['TLS of metrics without a Secret', ['config.observability.tls.enabled=true'], /needs a Secret: name one by/],
  [
    'an agent that waits',
    ['config.receptive.enabled=true'],
    /^config\.receptive\.enabled is true: this agentk dials kas/,
  ],
  [
    'cluster-admin',
    ['rbac.useExistingRole=cluster-admin'],
    /^rbac\.useExistingRole is cluster-admin, which this chart/,
  ],
  ['system:masters', ['rbac.impersonation.groups[0]=system:masters'], /^rbac\.impersonation names system:masters/],
  [
    'an account among users',
    ['rbac.impersonation.users[0]=system:serviceaccount:shop:deployer'],
    /^rbac\.impersonation\.users names the service account .*: write serviceaccount:shop:deployer in impersonation\.allowed$/,
  ],
  [
    'system:masters of the configuration',
    ['impersonation.allowed[0]=group:system:masters'],
    'impersonation.allowed names system:masters, which is cluster-admin: name the users and groups that occur',
  ],
  [
    'system:masters of callers',
    ['impersonation.callers[0]=group:system:masters'],
    'impersonation.callers names system:masters, which is cluster-admin: name the users and groups that occur',
  ],
  [
    'an account written as a user',
    ['impersonation.allowed[0]=user:system:serviceaccount:shop:deployer'],
    'impersonation.allowed has user:system:serviceaccount:shop:deployer: write serviceaccount:shop:deployer',
  ],
  [
    'any caller, where agentk may be anybody',
    ['impersonation.callers=any'],
    /^impersonation\.callers is any, and rbac\.impersonation lets agentk act as any user or group: .* cluster-admin\. Name/,
  ],
  [
    'any caller, in a list',
    ['impersonation.callers[0]=any'],
    /^impersonation\.callers is any, and rbac\.impersonation/,
  ],
  [
    'an entry without its kind',
    ['impersonation.allowed[0]=robot'],
    /^at '\/impersonation\/allowed\/0': 'robot' does not match/,
  ],
  [
    'any, of the configuration',
    ['impersonation.allowed[0]=any'],
    /^at '\/impersonation\/allowed\/0': 'any' does not match/,
  ],
  [
    'an account without its namespace',
    ['impersonation.allowed[0]=serviceaccount:deployer'],
    /^at '\/impersonation\/allowed\/0': 'serviceaccount:deployer' does not match pattern/,
  ],
  [
    'white space around a name',
    ['impersonation.allowed[0]=user: robot'],
    /^at '\/impersonation\/allowed\/0': 'user: robot' does not/,
  ],
  [
    'a wildcard',
    [
      'rbac.namespaces[0].name=a',
      'rbac.namespaces[0].serviceAccount=b',
      'rbac.namespaces[0].rules[0].apiGroups[0]=*',
      'rbac.namespaces[0].rules[0].resources[0]=pods',
      'rbac.namespaces[0].rules[0].verbs[0]=get',
    ],
    'rbac.namespaces: the rules of a have a wildcard: name what callers need',
  ],
  [
    'a role and namespaces',
    ['rbac.useExistingRole=view', 'rbac.namespaces[0].name=a', 'rbac.namespaces[0].serviceAccount=b'],
    /^rbac\.useExistingRole and rbac\.namespaces are both set/,
  ],
  [
    'two accounts of one namespace',
    [
      'rbac.namespaces[0].name=a',
      'rbac.namespaces[0].serviceAccount=b',
      'rbac.namespaces[1].name=a',
      'rbac.namespaces[1].serviceAccount=c',
    ],
    'rbac.namespaces names a twice: one service account of each namespace',
  ],
  ['a namespace that is none', ['rbac.namespaces[0]=null'], "at '/rbac/namespaces/0': got null, want object"],
  [
    'an account that exists, without its name',
    ['serviceAccount.create=false'],
    'serviceAccount.name is missing: with serviceAccount.create: false, the account that agentk has',
  ],
  [
    'views without any role',
    ['rbac.create=false', 'rbac.views.enabled=true'],
    'rbac.views.enabled is true, and rbac.create false, with which nothing is bound: leave one out',
  ],
  ['kinds of vendors alone', ['rbac.views.vendors=true'], /^rbac\.views\.vendors needs rbac\.views\.enabled: /],
  [
    'cluster-admin for a source',
    source(0, 'clusterRole=cluster-admin'),
    /^rbac\.gitops\.sources binds cluster-admin in shop, which this chart never does/,
  ],
  [
    'one account for two sources',
    [...source(0), ...source(1)],
    'rbac.gitops.sources names the service account shop/deployer, which is there already: each is made once',
  ],
  ['a source without an account', ['rbac.gitops.sources[0].namespace=shop'], /missing property 'serviceAccount'$/],
  ['a key of the token that is taken away', ['config.secretKey=null'], "at '/config': missing property 'secretKey'"],
  ['monitors without their kind', ['serviceMonitor.enabled=true'], /the cluster knows no ServiceMonitor: install/],
  ['a mistyped key', ['replica=3'], "at '': additional properties 'replica' not allowed"],
  ['a mistyped key below', ['config.kasAdress=a'], "at '/config': additional properties 'kasAdress' not allowed"],
  ['a block that is taken away', ['networkPolicy=null'], "at '': missing property 'networkPolicy'"],
  ['a block that is taken away below', ['config.observability=null'], "at '/config': missing property 'observability'"],
  ['no replicas', ['replicas=0'], "at '/replicas': minimum: got 0, want 1"],
  ['a word for a number', ['config.agentId=x'], /^at '\/config\/agentId': got string, want null or integer$/],
  ['a digest that is none', ['image.digest=abc'], /^at '\/image\/digest': 'abc' does not match pattern/],
  ['a pull policy that is none', ['image.pullPolicy=Sometimes'], /^at '\/image\/pullPolicy': value must be one of/],
]

const gitlab = ['directory.secret=', 'gitlab.address=https://gitlab.example.com', 'gitlab.secret=a']
const gateway = ['gateway.enabled=true', 'gateway.grpc.enabled=true', 'gateway.parentRefs[0].name=a']
const front = ['ingress.enabled=true', 'ingress.host=kas.example.com']

const kas: readonly Refused[] = [
  ['no image', ['image.repository='], /^image\.repository is missing: .* such as registry\.example\.com\/kas$/],
  [
    'nobody who says who is who',
    ['directory.secret='],
    /^nobody says who is who: set gitlab\.address, or directory\.secret/,
  ],
  [
    'both who say it',
    ['gitlab.address=https://gitlab.example.com'],
    /^gitlab\.address and directory\.secret are both set/,
  ],
  [
    'GitLab without a scheme',
    [...gitlab, 'gitlab.address=gitlab.example.com'],
    'gitlab.address is "gitlab.example.com": expected https:// or http://, then a host',
  ],
  ['GitLab without its secret', [...gitlab, 'gitlab.secret='], /^gitlab\.secret is missing: the Secret with what kas/],
  ['no secret of replicas', ['privateApi.secret='], /^privateApi\.secret is missing: a Secret that all replicas share/],
  [
    'a grace that is none',
    ['graces.shutdown=soon'],
    /shutdown_grace_period is "soon": expected a duration such as 300s/,
  ],
  [
    'a grace that is none, in customConfig',
    ['customConfig.private_api.listen.listen_grace_period=5 min'],
    'private_api.listen.listen_grace_period is "5 min": expected a duration such as 300s or 5m',
  ],
  [
    'a null in the place of what the chart gives',
    ['customConfig.agent.kubernetes_api=null'],
    'customConfig.agent.kubernetes_api is null: leave it out, and it is what the other values give',
  ],
  [
    'a null for one address',
    ['customConfig.observability.listen.address=null'],
    /^customConfig\.observability\.listen\.address is null: leave it out/,
  ],
  ['a null for GitLab', ['customConfig.api=null'], /^customConfig\.api is null: leave it out/],
  [
    'a word in the place of keys',
    ['customConfig.private_api.listen=:8155'],
    'customConfig.private_api.listen is ":8155": expected keys and values below it',
  ],
  [
    'an account that exists, without its name',
    ['serviceAccount.create=false'],
    'serviceAccount.name is missing: with serviceAccount.create: false, the account that kas has',
  ],
  ['PROXY headers of anybody', ['proxyProtocol=true'], /^proxyProtocol needs trustedProxies/],
  ['an ingress without a host', ['ingress.enabled=true'], /^ingress\.host is missing: the name by which/],
  [
    'one path for both',
    [...front, 'urlPathPrefix=/'],
    /^urlPathPrefix is \/, which agents have .* such as \/k8s-proxy\/$/,
  ],
  [
    'a path that the front does not know',
    [...front, 'customConfig.agent.kubernetes_api.url_path_prefix=/other/'],
    /^customConfig sets agent\.kubernetes_api\.url_path_prefix: give urlPathPrefix, which ingress/,
  ],
  [
    'a port that the Service does not know',
    ['customConfig.agent.listen.address=:9000'],
    'customConfig sets agent.listen.address to ":9000": expected port 8150, which the Service and the pods have',
  ],
  [
    'a port of kubectl that the Service does not know',
    ['customConfig.agent.kubernetes_api.listen.address=0.0.0.0:18154'],
    /^customConfig sets agent\.kubernetes_api\.listen\.address to "0\.0\.0\.0:18154": expected port 8154/,
  ],
  ['a route without a Gateway', ['gateway.enabled=true'], /^gateway\.parentRefs is missing: the Gateway by which/],
  [
    'a route without its kind',
    ['gateway.enabled=true', 'gateway.parentRefs[0].name=a'],
    'gateway.enabled is true, and the cluster knows no HTTPRoute: install the Gateway API 1.2 or later first',
  ],
  [
    'a gRPC route without a Gateway',
    ['gateway.grpc.enabled=true'],
    /^gateway\.grpc\.parentRefs is missing: the Gateway/,
  ],
  [
    'a gRPC route with the name of the other',
    [...gateway, 'gateway.hostnames[0]=a.example.com', 'gateway.grpc.hostnames[0]=a.example.com'],
    /^gateway\.grpc\.hostnames has a\.example\.com, which gateway\.hostnames has too: a listener has routes of one kind/,
    ['gateway.networking.k8s.io/v1'],
  ],
  ['two routes for any name', gateway, /^gateway\.grpc\.hostnames has any name, which gateway\.hostnames has too/],
  [
    'a gRPC route of a Gateway API that is older',
    ['gateway.grpc.enabled=true', 'gateway.grpc.parentRefs[0].name=a'],
    'gateway.grpc.enabled is true, and the cluster knows no GRPCRoute: install the Gateway API 1.1 or later first',
    ['gateway.networking.k8s.io/v1', 'gateway.networking.k8s.io/v1/HTTPRoute'],
  ],
  [
    'monitors without their kind',
    ['metrics.serviceMonitor.enabled=true'],
    /the cluster knows no ServiceMonitor: install/,
  ],
  ['monitors of pods without their kind', ['metrics.podMonitor.enabled=true'], /the cluster knows no PodMonitor: /],
  [
    'rules without their kind, beside monitors that have theirs',
    ['metrics.serviceMonitor.enabled=true', 'metrics.prometheusRule.enabled=true'],
    'metrics.prometheusRule.enabled is true, and the cluster knows no PrometheusRule: install the Prometheus Operator first',
    ['monitoring.coreos.com/v1', 'monitoring.coreos.com/v1/ServiceMonitor'],
  ],
  [
    'two monitors of one thing',
    ['metrics.serviceMonitor.enabled=true', 'metrics.podMonitor.enabled=true'],
    'metrics.serviceMonitor and metrics.podMonitor are both enabled: each metric would be there twice',
    ['monitoring.coreos.com/v1'],
  ],
  [
    'an alert that there is not',
    ['metrics.prometheusRule.enabled=true', 'metrics.prometheusRule.without[0]=KasSlow'],
    /^metrics\.prometheusRule\.without has "KasSlow", which is no alert: there are KasReplicasTooFew, /,
    ['monitoring.coreos.com/v1'],
  ],
  [
    'fewer than the fewest',
    ['autoscaling.enabled=true', 'autoscaling.maxReplicas=2'],
    'autoscaling.minReplicas is above autoscaling.maxReplicas',
  ],
  ['a mistyped key', ['customconfig.redis=a'], "at '': additional properties 'customconfig' not allowed"],
  ['no replicas', ['replicas=0'], "at '/replicas': minimum: got 0, want 1"],
  ['a number of replicas that is taken away', ['replicas=null'], "at '': missing property 'replicas'"],
  ['a grace that is taken away', ['graces.listen=null'], "at '/graces': missing property 'listen'"],
  ['a block that is taken away', ['autoscaling=null'], "at '': missing property 'autoscaling'"],
  ['a type of Service that is none', ['service.type=Public'], /^at '\/service\/type': value must be one of/],
  ['a list for one address', ['gitlab.address[0]=a'], /^at '\/gitlab\/address': got array, want null or string$/],
]

for (const [chart, refused] of Object.entries({ agentk, kas })) {
  for (const [name, set, words, apis = []] of refused) {
    t.test(`${chart}: ${name}`, { skip }, async (t) => {
      const said = await refusal({ chart: chart as ChartName, values: values(chart as ChartName), set, apis })
      if (typeof words === 'string') t.equal(said, words)
      else t.match(said, words)
      t.equal(said.split('\n').length, 1, 'one sentence')
    })
  }
}
