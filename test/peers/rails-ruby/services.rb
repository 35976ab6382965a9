# Makes each call that GitLab makes, with ruby-grpc and messages from the project's own definitions:
# `ruby services.rb HOST:PORT PLAN`. PLAN is a JSON file: `files`: descriptors in base64, in the order of their imports;
# `calls`: {method, request}, by the JSON of protobuf; `secret`: base64. Prints one JSON line for each call.
require 'base64'
require 'google/protobuf/timestamp_pb'
require 'grpc'
require 'json'
require 'openssl'

address, plan_file = ARGV
PLAN = JSON.parse(File.read(plan_file))
POOL = Google::Protobuf::DescriptorPool.generated_pool
PLAN['files'].each { |file| POOL.add_serialized_file(Base64.strict_decode64(file)) }
STUB = GRPC::ClientStub.new(address, :this_channel_is_insecure)

def message(name)
  POOL.lookup(name).msgclass
end

def part(value)
  Base64.urlsafe_encode64(JSON.generate(value), padding: false)
end

# As GitLab signs (doc/reference/gitlab-contract.md 1.1); `changes` to its claims.
def jwt(algorithm: 'HS256', key: Base64.strict_decode64(PLAN['secret']), changes: {})
  now = Time.now.to_i
  claims = { iss: 'gitlab.example.com', aud: 'gitlab-kas', jti: 'a', iat: now, nbf: now - 5, exp: now + 60 }
  head = "#{part({ typ: 'JWT', alg: algorithm })}.#{part(claims.merge(changes))}"
  digest = OpenSSL::Digest.new("SHA#{algorithm[2..]}")
  "#{head}.#{Base64.urlsafe_encode64(OpenSSL::HMAC.digest(digest, key, head), padding: false)}"
end

def call(entry, token = jwt)
  input = message(entry['input'])
  output = message(entry['output'])
  request = input.decode_json(JSON.generate(entry['request']))
  metadata = { 'kas-feature-x' => 'true' }
  metadata['authorization'] = "bearer #{token}" if token
  answer = STUB.request_response(
    entry['method'], request, input.method(:encode).to_proc, output.method(:decode).to_proc,
    deadline: Time.now + 5, metadata: metadata
  )
  { response: JSON.parse(output.encode_json(answer)) }
rescue GRPC::BadStatus => e
  { code: e.code, details: e.details }
end

def tell(what, fields)
  puts JSON.generate({ what: what }.merge(fields))
  $stdout.flush
end

PLAN['calls'].each { |entry| tell(entry['method'], call(entry)) }

first = PLAN['calls'].first
past = Time.now.to_i - 1
{
  'HS512' => jwt(algorithm: 'HS512'),
  'another audience' => jwt(changes: { aud: 'gitlab' }),
  'expired' => jwt(changes: { exp: past }),
  'another secret' => jwt(key: 'x' * 32),
  'none' => nil
}.each { |what, token| tell(what, call(first, token)) }
